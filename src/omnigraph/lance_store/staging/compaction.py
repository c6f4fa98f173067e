"""Compact one dataset without moving its HEAD: plan tasks, run them in any process, stage them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lance.optimize import Compaction, CompactionTask, RewriteResult

from omnigraph.lance_store.objects.protobuf import length_delimited, number_field
from omnigraph.lance_store.objects.storage_errors import storage_errors
from omnigraph.lance_store.staging.stage import StagedWrite
from omnigraph.lance_store.store import DatasetVersion, Store

_ROWS_PER_FRAGMENT = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RewriteTasks:
    """Executed compaction tasks. Their commit makes two versions: reserve, then rewrite."""

    results: list[Any]


def plan_compaction(
    store: Store, at: DatasetVersion, rows_per_fragment: int | None = None
) -> tuple[str, ...]:
    """Tasks that any process can run, each of some small or half-deleted fragments."""
    dataset = store.open(at)
    with storage_errors(f"planning the compaction of {at.location}"):
        options = {"target_rows_per_fragment": rows_per_fragment or _ROWS_PER_FRAGMENT}
        return tuple(task.json() for task in Compaction.plan(dataset, options).tasks)


def run_compaction(store: Store, at: DatasetVersion, task: str) -> str:
    """Write the fragments of one task, which no reader sees before they are committed."""
    dataset = store.open(at)
    with storage_errors(f"compacting {at.location}"):
        result = CompactionTask.from_json(task).execute(dataset)
    return _without_row_versions(result.json())


def stage_compaction(store: Store, at: DatasetVersion, results: Sequence[str]) -> StagedWrite:
    """Stage results of `run_compaction` for tasks that were planned on exactly `at`."""
    rewrites = [RewriteResult.from_json(result) for result in results]
    return StagedWrite(at, RewriteTasks(rewrites), None, store.open(at).count_rows(), steps=2)


def _without_row_versions(result: str) -> str:
    """The same rewrite, with version 1 as the version that created and last updated every row.

    Lance stores these two versions of every row in the manifest of the table, and every commit
    writes the manifest again. After 1,000 commits of one row they are 99 % of it. Only
    `plan_indexes` reads one of them, to find rows that an index may already have entries of; with
    version 1 a moved row counts as such a row.
    """
    body = json.loads(result)
    for fragment in body["new_fragments"]:
        always = {"inline": list(_one_run(fragment["physical_rows"]))}
        fragment["created_at_version_meta"] = fragment["last_updated_at_version_meta"] = always
    return json.dumps(body)


def _one_run(rows: int) -> bytes:
    """A `RowDatasetVersionSequence` of Lance with one run: rows 0 to `rows`, version 1."""
    span = length_delimited(1, number_field(2, rows))
    return length_delimited(1, length_delimited(1, span) + number_field(2, 1))

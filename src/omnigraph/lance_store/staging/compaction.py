"""Compact one dataset without moving its HEAD: plan tasks, run them anywhere, stage the results."""

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
    """Executed compaction tasks. Committing them takes two versions: reserve, then rewrite."""

    results: list[Any]


def plan_compaction(
    store: Store, at: DatasetVersion, rows_per_fragment: int | None = None
) -> tuple[str, ...]:
    """Groups of small and half-deleted fragments, each a task that any process can run."""
    dataset = store.open(at)
    with storage_errors(f"planning the compaction of {at.location}"):
        options = {"target_rows_per_fragment": rows_per_fragment or _ROWS_PER_FRAGMENT}
        return tuple(task.json() for task in Compaction.plan(dataset, options).tasks)


def run_compaction(store: Store, at: DatasetVersion, task: str) -> str:
    """Write the fragments of one task; they belong to nobody until they are staged and advanced."""
    dataset = store.open(at)
    with storage_errors(f"compacting {at.location}"):
        result = CompactionTask.from_json(task).execute(dataset)
    return _without_row_versions(result.json())


def stage_compaction(store: Store, at: DatasetVersion, results: Sequence[str]) -> StagedWrite:
    """What `run_compaction` returned for some of the tasks planned on exactly `at`."""
    rewrites = [RewriteResult.from_json(result) for result in results]
    return StagedWrite(at, RewriteTasks(rewrites), None, store.open(at).count_rows(), steps=2)


def _without_row_versions(result: str) -> str:
    """The same rewrite with one version for all rows: 1, as if they had always been there.

    Lance notes for every row which version created and which last updated it, and keeps the notes
    in the manifest of the table, which every commit writes anew: after 1,000 one-row commits they
    are 99 % of it. Nobody asks; the one who looks at the first (`stage_indexes`) wants to know
    whether a row may be known to an index already, and 1 says that it may.
    """
    body = json.loads(result)
    for fragment in body["new_fragments"]:
        always = {"inline": list(_one_run(fragment["physical_rows"]))}
        fragment["created_at_version_meta"] = fragment["last_updated_at_version_meta"] = always
    return json.dumps(body)


def _one_run(rows: int) -> bytes:
    """Lance's `RowDatasetVersionSequence` with a single run: rows 0 to `rows`, version 1."""
    span = length_delimited(1, number_field(2, rows))
    return length_delimited(1, length_delimited(1, span) + number_field(2, 1))

"""Compact one dataset without moving its HEAD: plan tasks, run them in any process, stage them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lance.optimize import Compaction, CompactionTask, RewriteResult

from omnigraph.lance_store.objects.protobuf import fields, length_delimited, number_field, number_in
from omnigraph.lance_store.objects.storage_errors import storage_errors
from omnigraph.lance_store.staging.stage import StagedWrite
from omnigraph.lance_store.store import DatasetVersion, Store

_ROWS_PER_FRAGMENT = 1024 * 1024
_FIRST_VERSION = 1
_RUN_VERSION = 2
"""The field of a run that has the version of its rows."""


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
    return _with_one_row_version(result.json())


def stage_compaction(store: Store, at: DatasetVersion, results: Sequence[str]) -> StagedWrite:
    """Stage results of `run_compaction` for tasks that were planned on exactly `at`."""
    rewrites = [RewriteResult.from_json(result) for result in results]
    return StagedWrite(at, RewriteTasks(rewrites), None, store.open(at).count_rows(), steps=2)


def _with_one_row_version(result: str) -> str:
    """The same rewrite, with one version as the version that created and last updated every row.

    Lance stores these two versions of every row in the manifest of the table, and every commit
    writes the manifest again. After 1,000 commits of one row they are 99 % of it. Only
    `plan_indexes` reads one of them, to find rows that an index may already have entries of. So the
    oldest version of the rows is right for all of them: an index that is younger may have entries
    of some, and an index that is older has an entry of none.
    """
    body = json.loads(result)
    oldest = min((_oldest_row(f) for f in body["original_fragments"]), default=_FIRST_VERSION)
    for fragment in body["new_fragments"]:
        always = {"inline": list(_one_run(fragment["physical_rows"], oldest))}
        fragment["created_at_version_meta"] = fragment["last_updated_at_version_meta"] = always
    return json.dumps(body)


def _oldest_row(fragment: Mapping[str, Any]) -> int:
    """The version that created the first of its rows; version 1 if the fragment does not say it."""
    sequence = (fragment.get("created_at_version_meta") or {}).get("inline")
    if not sequence:
        return _FIRST_VERSION
    runs = (run for _, _, run in fields(bytes(sequence)) if run is not None)
    versions = ([number_in(f) for n, f, _ in fields(run) if n == _RUN_VERSION] for run in runs)
    return min((found[0] if found else 0 for found in versions), default=_FIRST_VERSION)


def _one_run(rows: int, version: int) -> bytes:
    """A `RowDatasetVersionSequence` of Lance with one run: rows 0 to `rows`, all of `version`."""
    span = length_delimited(1, number_field(2, rows))
    run = length_delimited(1, span) + number_field(_RUN_VERSION, version)
    return length_delimited(1, run)

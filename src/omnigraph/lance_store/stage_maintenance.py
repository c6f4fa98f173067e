"""Prepare the compaction of one dataset without moving its HEAD."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from lance import LanceOperation, Transaction
from lance.optimize import Compaction, RewriteResult

from omnigraph.lance_store.protobuf import length_delimited, number_field
from omnigraph.lance_store.stage import StagedWrite
from omnigraph.lance_store.storage_errors import storage_errors
from omnigraph.lance_store.store import Dataset, DatasetVersion, Store

_ROWS_PER_FRAGMENT = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RewriteTasks:
    """Executed compaction tasks. Committing them takes two versions: reserve, then rewrite."""

    results: list[Any]


def stage_compaction(
    store: Store, at: DatasetVersion, rows_per_fragment: int | None = None
) -> StagedWrite | None:
    """Rewrite small and half-deleted fragments; None when there is nothing to gain."""
    dataset = store.open(at)
    with storage_errors(f"compacting {at.location}"):
        options = {"target_rows_per_fragment": rows_per_fragment or _ROWS_PER_FRAGMENT}
        plan = Compaction.plan(dataset, options)
        results = [_without_row_versions(task.execute(dataset)) for task in plan.tasks]
    if not results:
        return None
    if not _inherits_indexes(dataset):
        return StagedWrite(at, RewriteTasks(results), None, dataset.count_rows(), steps=2)
    groups = [LanceOperation.RewriteGroup(r.original_fragments, r.new_fragments) for r in results]
    transaction = Transaction(at.version, LanceOperation.Rewrite(groups, []))
    return StagedWrite(at, transaction, transaction.uuid, dataset.count_rows())


def _without_row_versions(result: Any) -> Any:
    """The same rewrite with one version for all rows: 1, as if they had always been there.

    Lance notes for every row which version created and which last updated it, and keeps the notes
    in the manifest of the table, which every commit writes anew: after 1,000 one-row commits they
    are 99 % of it. Nobody asks; the one who looks at the first (`stage_indexes`) wants to know
    whether a row may be known to an index already, and 1 says that it may.
    """
    body = json.loads(result.json())
    for fragment in body["new_fragments"]:
        always = {"inline": list(_one_run(fragment["physical_rows"]))}
        fragment["created_at_version_meta"] = fragment["last_updated_at_version_meta"] = always
    return RewriteResult.from_json(json.dumps(body))


def _one_run(rows: int) -> bytes:
    """Lance's `RowDatasetVersionSequence` with a single run: rows 0 to `rows`, version 1."""
    span = length_delimited(1, number_field(2, rows))
    return length_delimited(1, length_delimited(1, span) + number_field(2, 1))


def _inherits_indexes(dataset: Dataset) -> bool:
    """Whether a branch uses index files of the lineage it was forked from.

    Lance's own compaction would carry such an index over, write it below the branch and look for
    it below the original: every later lookup fails. Rewritten without its indexes the table is
    scanned until they are built again.
    """
    segments = (s for index in dataset.describe_indices() for s in index.segments)
    return any(segment.base_id is not None for segment in segments)

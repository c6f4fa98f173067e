"""Prepare the compaction of one dataset without moving its HEAD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lance import LanceOperation, Transaction
from lance.optimize import Compaction

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
        results = [task.execute(dataset) for task in plan.tasks]
    if not results:
        return None
    if not _inherits_indexes(dataset):
        return StagedWrite(at, RewriteTasks(results), None, dataset.count_rows(), steps=2)
    groups = [LanceOperation.RewriteGroup(r.original_fragments, r.new_fragments) for r in results]
    transaction = Transaction(at.version, LanceOperation.Rewrite(groups, []))
    return StagedWrite(at, transaction, transaction.uuid, dataset.count_rows())


def _inherits_indexes(dataset: Dataset) -> bool:
    """Whether a branch uses index files of the lineage it was forked from.

    Lance's own compaction would carry such an index over, write it below the branch and look for
    it below the original: every later lookup fails. Rewritten without its indexes the table is
    scanned until they are built again.
    """
    segments = (s for index in dataset.describe_indices() for s in index.segments)
    return any(segment.base_id is not None for segment in segments)

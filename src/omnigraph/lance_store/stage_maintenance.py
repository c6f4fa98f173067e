"""Prepare compaction and index segments of one dataset without moving its HEAD."""

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


def stage_compaction(store: Store, at: DatasetVersion) -> StagedWrite | None:
    """Rewrite small and half-deleted fragments; None when there is nothing to gain."""
    dataset = store.open(at)
    with storage_errors(f"compacting {at.location}"):
        options = {"target_rows_per_fragment": _ROWS_PER_FRAGMENT}
        plan = Compaction.plan(dataset, options)
        results = [task.execute(dataset) for task in plan.tasks]
    if not results:
        return None
    return StagedWrite(at, RewriteTasks(results), None, dataset.count_rows(), steps=2)


def stage_scalar_indexes(
    store: Store, at: DatasetVersion, columns: tuple[str, ...]
) -> StagedWrite | None:
    """BTREE segments for the fragments that the index of each column does not cover yet."""
    dataset = store.open(at)
    with storage_errors(f"indexing {at.location}"):
        segments = [s for c in columns if (s := _uncovered_segment(dataset, c)) is not None]
    if not segments:
        return None
    transaction = Transaction(at.version, LanceOperation.CreateIndex(segments, []))
    return StagedWrite(at, transaction, transaction.uuid, dataset.count_rows())


def index_name(column: str) -> str:
    return f"{column}_idx"


def _uncovered_segment(dataset: Dataset, column: str) -> Any | None:
    name = index_name(column)
    present = [index for index in dataset.describe_indices() if index.name == name]
    covered = {f for index in present for s in index.segments for f in s.fragment_ids}
    uncovered = [f.fragment_id for f in dataset.get_fragments() if f.fragment_id not in covered]
    if present and not uncovered:
        return None
    return dataset.create_index_uncommitted(
        column, "BTREE", name=name, replace=bool(present), fragment_ids=uncovered
    )

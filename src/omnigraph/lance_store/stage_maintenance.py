"""Prepare the compaction of one dataset without moving its HEAD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lance.optimize import Compaction

from omnigraph.lance_store.stage import StagedWrite
from omnigraph.lance_store.storage_errors import storage_errors
from omnigraph.lance_store.store import DatasetVersion, Store

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

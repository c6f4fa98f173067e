"""Plan, build and stage indexes in one go."""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.lance_store.staging.index_builds import build_indexes, plan_indexes, stage_indexes
from omnigraph.lance_store.staging.stage import StagedWrite
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.values.indexes import IndexSpec


def staged_indexes(
    store: Store, at: DatasetVersion, specs: Sequence[IndexSpec]
) -> StagedWrite | None:
    return stage_indexes(store, at, build_indexes(store, at, plan_indexes(store, at, specs)))

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.lance_store.dataset_branches import create_dataset
from omnigraph.lance_store.objects.storage_location import parse_location
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.staging.compaction import (
    plan_compaction,
    run_compaction,
    stage_compaction,
)
from omnigraph.lance_store.staging.stage import RowEdit, StagedWrite, stage_edit
from omnigraph.lance_store.store import DatasetVersion, Store

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64())])


class Rows:
    """Small edits of one dataset, spelled shortly."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def table(self, rows: dict[str, int]) -> pa.Table:
        return pa.table({"id": list(rows), "n": list(rows.values())}, schema=SCHEMA)

    def create(self, location: str = "t", **rows: int) -> DatasetVersion:
        return create_dataset(self.store, location, self.table(rows), ("id",))

    def append(self, at: DatasetVersion, **rows: int) -> StagedWrite:
        return stage_edit(self.store, at, RowEdit(self.table(rows), None, None))

    def rewrite(self, at: DatasetVersion, **rows: int) -> StagedWrite:
        new = self.table(rows)
        stored = find_rows(self.store.open(at), new.column("id").combine_chunks())
        order = [stored.column("id").to_pylist().index(i) for i in rows]
        return stage_edit(self.store, at, RowEdit(new, stored.take(order), None))

    def delete(self, at: DatasetVersion, *ids: str) -> StagedWrite:
        stored = find_rows(self.store.open(at), pa.array(ids))
        return stage_edit(self.store, at, RowEdit(None, None, stored))

    def compact(self, at: DatasetVersion) -> StagedWrite | None:
        tasks = plan_compaction(self.store, at)
        results = [run_compaction(self.store, at, task) for task in tasks]
        return stage_compaction(self.store, at, results) if results else None

    def read(self, at: DatasetVersion, columns: Sequence[str] = ("id", "n")) -> dict[str, int]:
        table = self.store.open(at).to_table(columns=list(columns))
        return dict(zip(*(table.column(c).to_pylist() for c in columns), strict=True))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(parse_location(tmp_path / "store", {}))


@pytest.fixture
def rows(store: Store) -> Rows:
    return Rows(store)

"""Answers: Arrow inside, whatever the caller wants outside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pyarrow as pa

_BATCH_ROWS = 64 * 1024


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows of one query at one commit."""

    query_name: str
    graph_branch: str
    graph_commit_id: str
    table: pa.Table

    @property
    def columns(self) -> list[str]:
        return list(self.table.column_names)

    @property
    def row_count(self) -> int:
        return int(self.table.num_rows)

    def to_arrow(self) -> pa.Table:
        return self.table

    def to_pylist(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows

    def to_pandas(self) -> Any:
        return self.table.to_pandas()

    def to_polars(self) -> Any:
        return import_module("polars").from_arrow(self.table)

    def batches(self, rows: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        yield from self.table.to_batches(max_chunksize=rows)

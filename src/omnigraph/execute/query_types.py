"""What a caller gives to a query and gets back: text, parameters, bounds, result."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

import pyarrow as pa

from omnigraph.errors import PackageMissing
from omnigraph.values.json_values import finite, json_value


@dataclass(frozen=True, slots=True)
class QueryText:
    """A query of a text with its parameters, and the state that it reads."""

    source: str
    name: str | None = None
    params: Mapping[str, object] | None = None
    at: str | None = None
    """The state in the words of the caller; None means the head of a branch."""


@dataclass(frozen=True, slots=True)
class QueryBounds:
    """How long a run may take, and an event that cancels it."""

    timeout: float | None = None
    cancel: threading.Event | None = None


_EXTRA = "frames"
_BATCH_ROWS = 64 * 1024
# One chunk of a text column holds at most 2 GiB, so a large table has several chunks.
_TABLE_ROWS = 1024 * 1024


class LateRows(Protocol):
    """Rows by position. Their values are made when they are read."""

    @property
    def names(self) -> list[str]: ...

    @property
    def length(self) -> int: ...

    def values(self, start: int, end: int) -> pa.RecordBatch:
        """Some of the rows, in order."""


@dataclass(slots=True)
class QueryResult:
    """The rows of one query at one commit.

    A large answer holds positions until it is read. `batches()` makes the values of one batch at a
    time, the other methods make all values.
    """

    query_name: str
    graph_branch: str
    graph_commit_id: str
    rows: pa.RecordBatch | LateRows
    at: str | None = None
    """The state in the words of the caller; None means the head of `graph_branch`."""
    _table: pa.Table | None = field(default=None, init=False, repr=False)

    @property
    def table(self) -> pa.Table:
        if self._table is None:
            self._table = pa.Table.from_batches(self.batches(_TABLE_ROWS))
        return self._table

    @property
    def columns(self) -> list[str]:
        rows = self.rows
        return list(rows.schema.names if isinstance(rows, pa.RecordBatch) else rows.names)

    @property
    def row_count(self) -> int:
        rows = self.rows
        return int(rows.num_rows if isinstance(rows, pa.RecordBatch) else rows.length)

    @property
    def target(self) -> dict[str, str]:
        """The branch, or the snapshot (a commit, tag or moment) that the caller named."""
        return {"branch": self.graph_branch} if self.at is None else {"snapshot": self.at}

    def to_dict(self) -> dict[str, Any]:
        """The `query` object of the CLI and HTTP. Rows have the form of data files."""
        return {**self.heading(), "rows": [finite(json_value(row)) for row in self.to_pylist()]}

    def heading(self) -> dict[str, Any]:
        """`to_dict` without the rows."""
        return {
            "query_name": self.query_name,
            "target": self.target,
            "graph_commit_id": self.graph_commit_id,
            "row_count": self.row_count,
            "columns": self.columns,
        }

    def to_arrow(self) -> pa.Table:
        return self.table

    def to_pylist(self) -> list[dict[str, Any]]:
        if not isinstance(self.rows, pa.RecordBatch):
            rows: list[dict[str, Any]] = self.table.to_pylist()
            return rows
        # For a few rows `Table.to_pylist` takes twice as long.
        names = self.rows.schema.names
        columns = [column.to_pylist() for column in self.rows.columns]
        if len(names) == 1:
            return [{names[0]: value} for value in columns[0]]
        return [dict(zip(names, row)) for row in zip(*columns)]  # noqa: B905 - equal by nature

    def to_pandas(self) -> Any:
        """Needs `omnigraph[frames]`."""
        _package("pandas")
        return self.table.to_pandas()

    def to_polars(self) -> Any:
        """Needs `omnigraph[frames]`."""
        return _package("polars").from_arrow(self.table)

    def batches(self, rows: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The rows in order, at most this many in a batch. Only one batch is in memory."""
        made = self.rows
        if isinstance(made, pa.RecordBatch):
            for start in range(0, max(1, made.num_rows), rows):
                yield made.slice(start, rows)
            return
        for start in range(0, max(1, made.length), rows):
            yield made.values(start, min(start + rows, made.length))


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise PackageMissing(
            f"{name} is not installed: pip install 'omnigraph[{_EXTRA}]'; to_arrow() needs nothing",
            package=name,
            extra=_EXTRA,
        ) from None

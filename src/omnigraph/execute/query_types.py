"""What a caller gives to a query and gets back: text, parameters, bounds, result."""

from __future__ import annotations

import operator
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, overload

import pyarrow as pa

from omnigraph.errors import InvalidArgument, PackageMissing
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.arrow_types import with_zone
from omnigraph.values.json_values import finite, json_value
from omnigraph.values.shown_rows import SHOWN_ROWS, ShownRows

_EXTRA = "frames"
_BATCH_ROWS = 64 * 1024
_ITERATED_ROWS = 4 * 1024
# The bytes of a Python value without its text.
_VALUE_BYTES = 64
# One chunk of a text column holds at most 2 GiB, so a large table has several chunks.
_TABLE_ROWS = 1024 * 1024


class KeptForms(Protocol):
    """Encoded forms of one answer by media type."""

    def get(self, media: str) -> bytes | None: ...

    def put(self, media: str, content: bytes) -> None: ...


class LateRows(Protocol):
    """Rows by position. Their values are made when they are read."""

    @property
    def names(self) -> list[str]: ...

    @property
    def length(self) -> int: ...

    @property
    def is_ready(self) -> bool:
        """False while the query has not run yet, so that reading rows would run it."""

    def values(self, start: int, end: int) -> pa.RecordBatch:
        """Some of the rows, in order."""


@dataclass(slots=True)
class PlainRows:
    """A few rows as Python values: columns of texts, numbers and booleans."""

    names: list[str]
    kinds: list[pa.DataType]
    columns: list[list[Any]]
    length: int

    @property
    def is_ready(self) -> bool:
        return True

    @property
    def size_bytes(self) -> int:
        """About the memory of the values."""
        texts = sum(len(v) for c in self.columns for v in c if isinstance(v, str))
        return texts + _VALUE_BYTES * self.length * len(self.columns)

    def values(self, start: int, end: int) -> pa.RecordBatch:
        pairs = zip(self.columns, self.kinds, strict=True)
        return pa.RecordBatch.from_arrays(
            [pa.array(column[start:end], kind) for column, kind in pairs], self.names
        )


@dataclass(slots=True, repr=False)
class QueryResult:
    """The rows of one query at one commit: `len`, iteration over dicts, `[i]`, and whole forms.

    A large answer holds positions until it is read: `batches()` and iteration then make one batch
    at a time, everything else makes them all. Moments are in UTC.

    Example:
        >>> for person in graph.query("match { $p: Person } return { $p.name as name }"):
        ...     print(person["name"])
    """

    query_name: str
    graph_branch: str
    graph_commit_id: str
    rows: pa.RecordBatch | LateRows
    at: str | None = None
    """The state that was asked for, as the caller named it; None is the head of `graph_branch`."""
    frame_of: Callable[[pa.Table], Any] | None = field(default=None, compare=False)
    """Makes a Spark `DataFrame` of a table."""
    snapshot: Snapshot | None = field(default=None, compare=False)
    """The state that the rows were read from, as the caller may see it."""
    forms: KeptForms | None = field(default=None, compare=False)
    """Encoded forms, of an answer that is kept for the next equal query."""
    _table: pa.Table | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if isinstance(self.rows, pa.RecordBatch):
            self.rows = with_zone(self.rows)

    def __len__(self) -> int:
        return self.row_count

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.batches(_ITERATED_ROWS):
            yield from batch.to_pylist()

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                return self._between(start, max(start, stop))
            return [self[i] for i in range(start, stop, step)]
        position = operator.index(index)
        if position < 0:
            position += len(self)
        if not 0 <= position < len(self):
            raise IndexError(f"row {index} of a result with {len(self)} rows")
        return self._between(position, position + 1)[0]

    def _between(self, start: int, end: int) -> list[dict[str, Any]]:
        """Some rows, without reading the others."""
        rows = self.rows
        if isinstance(rows, pa.RecordBatch):
            part = rows.slice(start, end - start)
        elif self._table is not None:
            part = self._table.slice(start, end - start)
        else:
            part = with_zone(rows.values(start, end))
        found: list[dict[str, Any]] = part.to_pylist()
        return found

    def __repr__(self) -> str:
        return self._shown().text(shutil.get_terminal_size().columns)

    def _repr_html_(self) -> str:
        """The table that a notebook shows."""
        return self._shown().html()

    def _shown(self) -> ShownRows:
        """The first rows; of a query that Spark has not run yet, none."""
        title = f"{self.query_name} at {self.graph_commit_id}"
        if not isinstance(self.rows, pa.RecordBatch) and not self.rows.is_ready:
            return ShownRows(title, self.columns, [], None)
        first = self._between(0, min(SHOWN_ROWS, len(self)))
        return ShownRows(title, self.columns, [list(row.values()) for row in first], len(self))

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
    def kinds(self) -> list[pa.DataType]:
        """The type of each column."""
        rows = self.rows
        if isinstance(rows, PlainRows):
            return rows.kinds
        schema = rows.schema if isinstance(rows, pa.RecordBatch) else self.table.schema
        return list(schema.types)

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
        made = self.rows
        if isinstance(made, PlainRows):
            names, columns = made.names, made.columns
        elif isinstance(made, pa.RecordBatch):
            # For a few rows `Table.to_pylist` takes twice as long.
            names = made.schema.names
            columns = [column.to_pylist() for column in made.columns]
        else:
            rows: list[dict[str, Any]] = self.table.to_pylist()
            return rows
        if len(names) == 1:
            name = names[0]
            return [{name: value} for value in columns[0]]
        return [dict(zip(names, row)) for row in zip(*columns)]  # noqa: B905 - equal by nature

    def to_pandas(self) -> Any:
        """Needs `omnigraph[frames]`."""
        _package("pandas")
        return self.table.to_pandas()

    def to_polars(self) -> Any:
        """Needs `omnigraph[frames]`."""
        return _package("polars").from_arrow(self.table)

    def to_spark(self) -> Any:
        """A Spark `DataFrame` of the rows; needs `omnigraph[spark]`.

        For `engine="spark"` this is the DataFrame of the query itself: nothing has run yet, and
        no row passes through this process.
        """
        if not isinstance(self.rows, pa.RecordBatch) and hasattr(self.rows, "frame"):
            return self.rows.frame()
        if self.frame_of is None:
            raise InvalidArgument("this result was not made by Graph.query: use to_arrow()")
        return self.frame_of(self.table)

    def batches(self, rows: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The rows in order, at most this many in a batch. Only one batch is in memory."""
        made = self.rows
        if isinstance(made, pa.RecordBatch):
            for start in range(0, max(1, made.num_rows), rows):
                yield made.slice(start, rows)
            return
        for start in range(0, max(1, made.length), rows):
            yield with_zone(made.values(start, min(start + rows, made.length)))


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

"""The rows of a query that a server answers as an Arrow stream.

A small answer is read at once and kept. A large one is read when it is asked for: a pass over the
batches holds one of them. A second pass sends the query again, for the same commit.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from omnigraph.errors import OmnigraphError, ServerUnavailable
from omnigraph.execute.query_types import QueryResult

KEPT_BYTES = 16 * 1024 * 1024
"""An answer up to this size is read at once."""

_HEADING = ("query_name", "graph_branch", "graph_commit_id", "row_count", "target")


def table_of(content: bytes) -> pa.Table:
    with pa.ipc.open_stream(pa.BufferReader(content)) as reader:
        return reader.read_all()


def result_of(table: pa.Table, heading: dict[str, str], at: str | None) -> QueryResult:
    """A result whose rows are in memory."""
    plain = without_heading(table)
    batches = plain.combine_chunks().to_batches()
    rows = batches[0] if len(batches) == 1 else ReceivedRows(plain)
    return _result(rows, heading, at)


def _result(rows: Any, heading: dict[str, str], at: str | None) -> QueryResult:
    return QueryResult(
        heading["query_name"], heading["graph_branch"], heading["graph_commit_id"], rows, at
    )


def heading_of(schema: pa.Schema) -> dict[str, str]:
    """The heading of the answer, which is in the metadata of the schema."""
    metadata = schema.metadata or {}
    found = {name: metadata.get(name.encode()) for name in _HEADING}
    return {name: value.decode() for name, value in found.items() if value is not None}


def without_heading(rows: Any) -> Any:
    """The same table or batch without the metadata that `heading_of` reads."""
    metadata = rows.schema.metadata or {}
    kept = {name: value for name, value in metadata.items() if name.decode() not in _HEADING}
    return rows.replace_schema_metadata(kept or None)


class ReceivedRows:
    """A table as the rows of a `QueryResult`: no rows, or more than one batch holds."""

    is_ready = True

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @property
    def names(self) -> list[str]:
        return list(self._table.schema.names)

    @property
    def length(self) -> int:
        return int(self._table.num_rows)

    def values(self, start: int, end: int) -> pa.RecordBatch:
        return _one_batch(self._table.slice(start, end - start))


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    if not table.num_rows:
        empty = [pa.array([], field.type) for field in table.schema]
        return pa.RecordBatch.from_arrays(empty, schema=table.schema)
    return table.combine_chunks().to_batches()[0]


Chunks = Iterator[bytes]


class StreamedRows:
    """Rows that are read from a connection, in order, and from a new one for another pass."""

    is_ready = True

    def __init__(self, first: bytes, rest: Chunks, again: Callable[[], Chunks]) -> None:
        self._again = again
        self._reader = _open(first, rest)
        self._position = 0
        self._ahead: pa.RecordBatch | None = None
        self.heading = heading_of(self._reader.schema)

    @property
    def names(self) -> list[str]:
        return list(self._reader.schema.names)

    @property
    def length(self) -> int:
        return int(self.heading["row_count"])

    def values(self, start: int, end: int) -> pa.RecordBatch:
        if start < self._position:
            self._reader = _open(b"", self._again())
            self._position, self._ahead = 0, None
        parts: list[pa.RecordBatch] = []
        while self._position < end:
            batch = self._next()
            if batch is None:
                break
            used = min(batch.num_rows, end - self._position)
            skipped = max(0, min(used, start - self._position))
            if used > skipped:
                parts.append(batch.slice(skipped, used - skipped))
            self._position += used
            self._ahead = batch.slice(used) if used < batch.num_rows else None
        schema = self._reader.schema
        found = pa.Table.from_batches(parts, schema) if parts else schema.empty_table()
        return without_heading(_one_batch(found))

    def _next(self) -> pa.RecordBatch | None:
        if self._ahead is not None:
            return self._ahead
        try:
            return self._reader.read_next_batch()
        except StopIteration:
            return None


def _open(first: bytes, rest: Chunks) -> Any:
    try:
        return pa.ipc.open_stream(_ChunkFile(first, rest))
    except pa.ArrowInvalid as error:
        raise cut_off(error) from error


def cut_off(error: Exception) -> OmnigraphError:
    return ServerUnavailable(
        f"the answer of the server was cut off: {error}", reason="cut_off", server="this server"
    )


class _ChunkFile(io.RawIOBase):
    """Chunks as a file that Arrow reads."""

    def __init__(self, first: bytes, rest: Chunks) -> None:
        self._rest = rest
        self._held = memoryview(first)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._held:
            chunk = next(self._rest, None)
            if chunk is None:
                return 0
            self._held = memoryview(chunk)
        count = min(len(buffer), len(self._held))
        buffer[:count] = self._held[:count]
        self._held = self._held[count:]
        return count


def tables_of(chunks: Chunks) -> Iterator[pa.Table]:
    """The batches of an Arrow stream as they arrive."""
    reader = _open(b"", chunks)
    for batch in reader:
        yield pa.Table.from_batches([batch])

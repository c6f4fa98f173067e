"""Checked rows of one type, on local disk until their table is known to be writable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import EntityType

PLACE = "__place"
"""Where a row came from, as one number that grows with file and line."""

_FILE_SHIFT = 40
_ROWS_PER_CHUNK = 1024 * 1024
_BYTES_PER_CHUNK = 256 * 1024 * 1024


def place_of(file_number: int, line: int) -> int:
    return (file_number << _FILE_SHIFT) | line


def file_and_line(place: int) -> tuple[int, int]:
    return place >> _FILE_SHIFT, place & ((1 << _FILE_SHIFT) - 1)


def in_chunks(
    batches: Iterable[pa.RecordBatch],
    rows_per_chunk: int = _ROWS_PER_CHUNK,
    bytes_per_chunk: int | None = _BYTES_PER_CHUNK,
) -> Iterator[pa.Table]:
    """The batches put together until they have so many rows or bytes."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= rows_per_chunk or (bytes_per_chunk is not None and size >= bytes_per_chunk):
            yield pa.Table.from_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)


class Spool(Protocol):
    """All checked rows of one type, in the order of the input."""

    entity: EntityType
    rows: int

    def chunks(self) -> Iterator[pa.Table]:
        """The rows with their places, some at a time."""


class FileSpool:
    """Append tables, then read them back in chunks as large as a fragment may be."""

    def __init__(self, entity: EntityType, path: Path) -> None:
        self.entity = entity
        self.rows = 0
        self._path = path
        self.schema = table_schema(entity).append(pa.field(PLACE, pa.int64(), nullable=False))
        self._writer = pa.ipc.new_stream(str(path), self.schema)

    def append(self, table: pa.Table) -> None:
        self._writer.write_table(table)
        self.rows += table.num_rows

    def close(self) -> None:
        self._writer.close()

    def chunks(self) -> Iterator[pa.Table]:
        """Not much more than a bounded number of rows and bytes at a time."""
        with pa.OSFile(str(self._path)) as file, pa.ipc.open_stream(file) as reader:
            yield from in_chunks(reader)

    def mapped(self, rows_per_chunk: int) -> Iterator[pa.Table]:
        """Chunks of any number of bytes that stay in the file until they are looked at."""
        with pa.memory_map(str(self._path)) as file, pa.ipc.open_stream(file) as reader:
            yield from in_chunks(reader, rows_per_chunk, bytes_per_chunk=None)

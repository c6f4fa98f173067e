"""Read every source once: parse, complete, check each row, and put it on local disk.

Needs the schema and nothing else of the graph, so it happens before the transaction, and a write
that has to be prepared again does not parse again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import ID, Catalog, EdgeType, EntityType
from omnigraph.embed.provider import EmbeddingProvider
from omnigraph.integrity.row_checks import check_rows
from omnigraph.integrity.violations import Place, Report, Violation
from omnigraph.load.key_index import KeyIndex
from omnigraph.load.parsed_rows import Lines, ParsedBlock, ParsedRows, ParseProblem
from omnigraph.load.prepare_rows import PLACE, as_stored, file_and_line, place_of, with_ids
from omnigraph.load.sources import ReadOptions, Source, read_source
from omnigraph.settings.models import LoadSettings
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.derived import fill_embeddings

_ROWS_PER_CHUNK = 1024 * 1024
_BYTES_PER_CHUNK = 256 * 1024 * 1024


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


class PreparedTable(Protocol):
    """All checked rows of one type, in the order of the input."""

    entity: EntityType
    rows: int

    def chunks(self) -> Iterator[pa.Table]:
        """The rows with their places, some at a time."""


class PreparedFile:
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


T = TypeVar("T")


def read_ahead(blocks: Iterator[T]) -> Iterator[T]:
    """The same items; one of them is made in another thread meanwhile."""
    with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as pool:
        waiting = pool.submit(next, blocks, None)
        while (block := waiting.result()) is not None:
            waiting = pool.submit(next, blocks, None)
            yield block


_TOO_MANY = 10_000
"""Rubbish is not read to its end."""

Progress = Callable[[int, int], None]
"""(bytes read, rows read) since the last call."""


@dataclass
class PreparedInput:
    """All rows of a load on local disk, each good by itself."""

    catalog: Catalog
    index: KeyIndex
    folder: Path
    files: list[str] = field(default_factory=list)
    spools: dict[TableKey, PreparedTable] = field(default_factory=dict)
    given_ids: set[TableKey] = field(default_factory=set)
    """Types some of whose rows came with an id or a key: only those can clash."""
    staged_since: int | None = None
    """Microseconds: since when there are files of it in the graph, before it asks to write."""

    @property
    def total(self) -> int:
        return sum(spool.rows for spool in self.spools.values())

    def place(self, number: int) -> Place:
        file, line = file_and_line(number)
        return Place(self.files[file], line)


@contextmanager
def prepared_input(
    catalog: Catalog, settings: LoadSettings, files: Iterable[str] = ()
) -> Iterator[PreparedInput]:
    """An empty one, and a folder for it that goes with it."""
    with tempfile.TemporaryDirectory(
        prefix="omnigraph-load-", dir=settings.temp_directory
    ) as folder:
        index = KeyIndex(catalog, Path(folder), settings.memory_bytes)
        try:
            yield PreparedInput(catalog, index, Path(folder), list(files))
        finally:
            index.close()


def prepare(
    prepared: PreparedInput,
    sources: Sequence[Source],
    options: ReadOptions,
    provider: EmbeddingProvider,
    progress: Progress,
) -> None:
    """Fill `prepared`, or raise `ValidationFailed` with the place of the first broken rows."""
    report = Report(files=prepared.files)
    for source in sources:
        prepared.files.append(source.name)
        for block in read_ahead(read_source(source, prepared.catalog, options)):
            _take(prepared, block, report, provider)
            progress(block.bytes_read, sum(len(rows.lines) for rows in block.rows))
            if report.total > _TOO_MANY:
                break
    for spool in prepared.spools.values():
        _spool(prepared, spool.entity).close()
    report.raise_if_any()


def _take(
    prepared: PreparedInput, block: ParsedBlock, report: Report, provider: EmbeddingProvider
) -> None:
    for problem in block.problems:
        report.add(problem.rule, 1, [_violation(problem, block.file)])
    for rows in block.rows:
        table = with_ids(rows.entity, rows.table)
        if report.total == 0:
            # Nothing is written any more once a rule is broken, so nobody needs the vectors.
            table = fill_embeddings(rows.entity, table, provider)
        check_rows(rows.entity, table, report, _places(block.file, rows.lines))
        if report.total == 0:
            _keep(prepared, rows, table)


def _keep(prepared: PreparedInput, rows: ParsedRows, table: pa.Table) -> None:
    entity = rows.entity
    spool = _spool(prepared, entity)
    places = place_of(len(prepared.files) - 1, 0) + rows.lines.astype(np.int64)
    stored = as_stored(entity, table).append_column(spool.schema.field(PLACE), pa.array(places))
    spool.append(stored)
    prepared.index.add_input(entity, _checkable(prepared, rows, stored))


def _checkable(prepared: PreparedInput, rows: ParsedRows, stored: pa.Table) -> pa.Table:
    """The rows without ids that were made a moment ago: those are nobody else's."""
    keyed = not isinstance(rows.entity, EdgeType) and bool(rows.entity.key)
    given = rows.table.column(ID)
    if keyed or given.null_count < len(given):
        prepared.given_ids.add(rows.entity.table_key)
    if keyed or given.null_count == 0:
        return stored
    if given.null_count == len(given):
        return stored.set_column(0, ID, pa.nulls(len(given), pa.string()))
    ids = pc.if_else(given.is_valid(), stored.column(ID), pa.scalar(None, pa.string()))
    return stored.set_column(0, ID, ids)


def _spool(prepared: PreparedInput, entity: EntityType) -> PreparedFile:
    key = entity.table_key
    if key not in prepared.spools:
        path = prepared.folder / f"{key.kind.value}-{len(prepared.spools)}.arrow"
        prepared.spools[key] = PreparedFile(entity, path)
    spool = prepared.spools[key]
    assert isinstance(spool, PreparedFile)  # the other kind is filled by workers
    return spool


def _places(file: str, lines: Lines) -> Callable[[int], Place | None]:
    return lambda row: Place(file, int(lines[row]))


def _violation(problem: ParseProblem, file: str) -> Violation:
    table = problem.entity.table_key if problem.entity is not None else None
    place = Place(file, problem.line)
    return Violation(problem.rule, table, None, problem.property, problem.message, place)

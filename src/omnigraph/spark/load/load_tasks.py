"""What one Spark task of a load does: parse a piece of input, check it, write its rows.

A task holds nothing but its plan and its piece, so it can run anywhere and again: only what the
winning attempt returns is adopted, files of the others are never named by anything.
"""

from __future__ import annotations

import os
import pickle
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph import failpoints
from omnigraph.catalog.model import ID, Catalog, EdgeType, EntityType
from omnigraph.embed.choose import choose_provider
from omnigraph.embed.provider import EmbeddingProvider
from omnigraph.errors import OmnigraphError
from omnigraph.integrity.row_checks import check_rows
from omnigraph.integrity.violations import Place, Places, Report, Violation
from omnigraph.lance_store.staging.written_fragments import WriteTarget, write_rows
from omnigraph.lance_store.store import DatasetVersion
from omnigraph.load.input_files import file_errors, line_blocks, parquet_input
from omnigraph.load.json_lines import JsonLines
from omnigraph.load.parsed_rows import ParsedBlock, ParsedRows
from omnigraph.load.prepare_rows import as_stored, with_ids
from omnigraph.load.sources import (
    ReadOptions,
    Source,
    entity_of,
    fit_source_table,
    read_source,
)
from omnigraph.settings.models import EmbeddingSettings
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.derived import fill_embeddings

_ROWS_PER_BATCH = 64 * 1024
_SMALLEST_PIECE = 4 * 1024**2
_PIECES_PER_SLOT = 2


@dataclass(frozen=True, slots=True)
class InputPiece:
    """Part of one source: lines that begin in [start, end), row groups, or all of it."""

    file: int
    source: Source
    start: int = 0
    end: int | None = None
    row_groups: tuple[int, ...] | None = None


class LineCount(Protocol):
    """Whoever wants to know how many lines a piece had."""

    lines: int


def cut(sources: Sequence[Source], task_bytes: int, slots: int = 1) -> tuple[InputPiece, ...]:
    """Pieces in input order: at most `task_bytes` each, less when that keeps `slots` tasks busy."""
    share = sum(source.size for source in sources) // (_PIECES_PER_SLOT * slots)
    piece_bytes = min(task_bytes, max(share, _SMALLEST_PIECE))
    pieces: list[InputPiece] = []
    for number, source in enumerate(sources):
        pieces += _cut_one(number, source, piece_bytes)
    return tuple(pieces)


def _cut_one(number: int, source: Source, piece_bytes: int) -> list[InputPiece]:
    if source.format == "ndjson" and not source.name.endswith(".gz"):
        size = source.size
        starts = range(0, max(size, 1), piece_bytes)
        return [InputPiece(number, source, start, start + piece_bytes) for start in starts]
    if source.format == "parquet" and source.path is not None:
        return _row_groups(number, source, piece_bytes)
    if source.table is not None:
        return _slices(number, source, piece_bytes)
    return [InputPiece(number, source)]


def _slices(number: int, source: Source, piece_bytes: int) -> list[InputPiece]:
    table = source.table
    if isinstance(table, pa.RecordBatchReader):
        table = table.read_all()
    rows = max(1, table.num_rows * piece_bytes // max(table.nbytes, 1))
    starts = range(0, max(table.num_rows, 1), rows)
    return [InputPiece(number, replace(source, table=table.slice(start, rows))) for start in starts]


def _row_groups(number: int, source: Source, piece_bytes: int) -> list[InputPiece]:
    assert source.path is not None
    try:
        metadata = pq.read_metadata(parquet_input(source.path))
    except (OSError, pa.ArrowInvalid):
        return [InputPiece(number, source)]  # whoever reads it says what is wrong with it
    pieces: list[InputPiece] = []
    group: list[int] = []
    size = 0
    for index in range(metadata.num_row_groups):
        group.append(index)
        size += metadata.row_group(index).total_byte_size
        if size >= piece_bytes:
            pieces.append(InputPiece(number, source, row_groups=tuple(group)))
            group, size = [], 0
    if group or not pieces:
        pieces.append(InputPiece(number, source, row_groups=tuple(group)))
    return pieces


def read_piece(
    piece: InputPiece, catalog: Catalog, options: ReadOptions, count: LineCount
) -> Iterator[ParsedBlock]:
    """The blocks of a piece; lines are numbered from 1 at its beginning."""
    source = piece.source
    if source.format == "ndjson":
        yield from _read_lines(piece, catalog, options, count)
        return
    if piece.row_groups is not None and source.path is not None:
        with file_errors(source.path), pq.ParquetFile(parquet_input(source.path)) as file:
            groups = list(piece.row_groups)
            batches = file.iter_batches(_ROWS_PER_BATCH, row_groups=groups, use_threads=False)
            yield from read_batches(source, batches, catalog, options, count)
        return
    if isinstance(source.table, pa.Table):
        batches = source.table.to_batches(_ROWS_PER_BATCH)
        yield from read_batches(source, batches, catalog, options, count)
        return
    yield from read_source(source, catalog, options)


def read_batches(
    source: Source,
    batches: Iterable[pa.RecordBatch],
    catalog: Catalog,
    options: ReadOptions,
    count: LineCount,
) -> Iterator[ParsedBlock]:
    """Rows of one type; they are numbered from 1."""
    entity = entity_of(source, catalog)
    for batch in batches:
        table = pa.Table.from_batches([batch])
        yield fit_source_table(source, entity, table, count.lines + 1, options)
        count.lines += batch.num_rows


def _read_lines(
    piece: InputPiece, catalog: Catalog, options: ReadOptions, count: LineCount
) -> Iterator[ParsedBlock]:
    assert piece.source.path is not None
    parser = JsonLines(catalog, options.blobs)
    for before, lines in line_blocks(piece.source.path, piece.start, piece.end):
        yield parser.parse(lines, before + 1, piece.source.name)
        count.lines = before + lines.count(b"\n")


Lines = npt.NDArray[np.int64]


def encode_lines(lines: Lines) -> bytes:
    starts = np.flatnonzero(np.diff(lines, prepend=lines[:1] - 2) != 1)
    lengths = np.diff(np.append(starts, len(lines)))
    gaps = np.diff(lines[starts], prepend=0)
    return zlib.compress(np.concatenate([gaps, lengths]).astype("<i8").tobytes(), 1)


def decode_lines(data: bytes) -> Lines:
    gaps, lengths = np.frombuffer(zlib.decompress(data), "<i8").reshape(2, -1)
    firsts = np.cumsum(gaps)
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.asarray(np.repeat(firsts, lengths) + within, np.int64)


_ROWS_PER_FRAGMENT = 1024 * 1024
_BYTES_PER_FRAGMENT = 256 * 1024**2
RESULT = "task long, result binary"


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What every task of a load needs to know."""

    catalog: Catalog
    targets: Mapping[TableKey, WriteTarget]
    options: ReadOptions
    embedding: EmbeddingSettings
    """Of the graph, if some property wants vectors; workers then need the provider's key."""


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """Some fragments of one table, in row order, and the lines of their rows."""

    key: TableKey
    fragments: tuple[str, ...]
    rows: int
    lines: bytes
    given: bytes | None
    """Which rows came with an id or key, compressed; None when all did."""

    def has_id(self) -> npt.NDArray[np.bool_] | None:
        """Which rows came with an id or key; None when all did."""
        return None if self.given is None else np.frombuffer(zlib.decompress(self.given), np.bool_)


@dataclass(slots=True)
class TaskResult:
    """What a task tells the driver; lines count from the beginning of its piece."""

    task: int
    lines: int = 0
    bytes_read: int = 0
    parts: list[WrittenRows] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    error: OmnigraphError | None = None


def run_tasks(plan: LoadPlan, pieces: tuple[InputPiece, ...]) -> Any:
    """A function for `mapInArrow` over the numbers of the pieces."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                result = TaskResult(number)
                blocks = read_piece(pieces[number], plan.catalog, plan.options, result)
                yield _as_batch(run_task(plan, blocks, result))

    return run


def run_frame(plan: LoadPlan, source: Source) -> Any:
    """A function for `mapInArrow` over the rows themselves; a partition is a task."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        result = TaskResult(import_module("pyspark").TaskContext.get().partitionId())
        blocks = read_batches(source, batches, plan.catalog, plan.options, result)
        yield _as_batch(run_task(plan, blocks, result))

    return run


def run_task(plan: LoadPlan, blocks: Iterator[ParsedBlock], result: TaskResult) -> TaskResult:
    """Fill `result` from the blocks of one piece."""
    report = Report()
    writers: dict[TableKey, _PartWriter] = {}
    try:
        provider = choose_provider(plan.embedding, os.environ, SYSTEM_CLOCK)
        for block in blocks:
            _take(plan, block, report, provider, writers)
            result.bytes_read += block.bytes_read
        if report.total == 0:
            for writer in writers.values():
                result.parts += writer.finish()
            failpoints.hit("pipeline.task_written")
    except OmnigraphError as error:
        # Bad input stays bad: told to the driver instead of tried four times.
        result.error = error
    result.violations = report.violations
    result.counts = report.counts
    return result


def _take(
    plan: LoadPlan,
    block: ParsedBlock,
    report: Report,
    provider: EmbeddingProvider,
    writers: dict[TableKey, _PartWriter],
) -> None:
    for problem in block.problems:
        table = problem.entity.table_key if problem.entity is not None else None
        place = Place(block.file, problem.line)
        found = Violation(problem.rule, table, None, problem.property, problem.message, place)
        report.add(problem.rule, 1, [found])
    for entity, parts in _by_type(block).items():
        rows = _in_line_order(entity, parts)
        table = with_ids(entity, rows.table)
        if report.total == 0:
            table = fill_embeddings(entity, table, provider)
        check_rows(entity, table, report, _places(block.file, rows.lines))
        if report.total == 0:
            key = entity.table_key
            if key not in writers:
                writers[key] = _PartWriter(key, plan.targets[key])
            writers[key].add(as_stored(entity, table), rows.lines, _given(rows))


def _places(file: str, lines: Lines) -> Places:
    return lambda row: Place(file, int(lines[row]))


def _by_type(block: ParsedBlock) -> dict[EntityType, list[ParsedRows]]:
    found: dict[EntityType, list[ParsedRows]] = {}
    for rows in block.rows:
        found.setdefault(rows.entity, []).append(rows)
    return found


def _in_line_order(entity: EntityType, parts: list[ParsedRows]) -> ParsedRows:
    if len(parts) == 1 and (np.diff(parts[0].lines) > 0).all():
        return parts[0]
    lines = np.concatenate([part.lines for part in parts])
    order = np.argsort(lines, kind="stable")
    table = pa.concat_tables([part.table for part in parts])
    return ParsedRows(entity, table.take(pa.array(order)), lines[order])


def _given(rows: ParsedRows) -> np.ndarray[Any, np.dtype[np.bool_]]:
    if not isinstance(rows.entity, EdgeType) and rows.entity.key:
        return np.ones(len(rows.lines), bool)
    return np.asarray(rows.table.column(ID).is_valid().to_numpy())


class _PartWriter:
    """Gathers rows of one table and writes them when they fill a fragment."""

    def __init__(self, key: TableKey, target: WriteTarget) -> None:
        self._key = key
        self._target = target
        self._waiting: list[tuple[pa.Table, Lines, Any]] = []
        self._rows = self._bytes = 0
        self._parts: list[WrittenRows] = []

    def add(self, table: pa.Table, lines: Lines, given: Any) -> None:
        self._waiting.append((table, lines, given))
        self._rows += table.num_rows
        self._bytes += table.nbytes
        if self._rows >= _ROWS_PER_FRAGMENT or self._bytes >= _BYTES_PER_FRAGMENT:
            self._write()

    def finish(self) -> list[WrittenRows]:
        if self._waiting:
            self._write()
        return self._parts

    def _write(self) -> None:
        tables, lines, given = zip(*self._waiting, strict=True)
        rows = pa.concat_tables(tables)
        flags = np.concatenate(given)
        part = WrittenRows(
            self._key,
            write_rows(self._target, rows),
            rows.num_rows,
            encode_lines(np.concatenate(lines)),
            None if flags.all() else zlib.compress(flags.tobytes(), 1),
        )
        self._parts.append(part)
        self._waiting, self._rows, self._bytes = [], 0, 0


def shifted(violation: Violation, lines: int) -> Violation:
    """The same finding, its line counted from the beginning of the file."""
    place = violation.place
    if place is None or place.line is None:
        return violation
    return replace(violation, place=replace(place, line=place.line + lines))


def _as_batch(result: TaskResult) -> pa.RecordBatch:
    return pa.record_batch({"task": [result.task], "result": [pickle.dumps(result)]})


@dataclass(frozen=True, slots=True)
class BegunLoad:
    """Where the rows of one frame are written, before the first of them is. Pickles."""

    source: Source
    plan: LoadPlan
    homes: Mapping[TableKey, DatasetVersion]
    begun_at: int
    """Microseconds: no file of it is older."""

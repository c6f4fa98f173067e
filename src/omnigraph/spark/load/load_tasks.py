"""What the workers of a Spark load run: parse a piece of the input, prepare its rows, write them.

A task needs only its plan and its piece, so Spark can run it anywhere and repeat it. The driver
adopts the files of the attempt whose `TaskResult` it receives. Files of other attempts are
referenced by nothing, and cleanup removes them.

Workers import this module for every task, so it imports nothing that opens a graph.
"""

from __future__ import annotations

import os
import pickle
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph import failpoints
from omnigraph.catalog.model import Catalog, EntityType, embedding_of
from omnigraph.embed.choose import choose_provider
from omnigraph.embed.provider import EmbeddingProvider
from omnigraph.errors import OmnigraphError
from omnigraph.integrity.violations import Report, Tally, Violation
from omnigraph.lance_store.staging.written_fragments import write_rows
from omnigraph.lance_store.store import DatasetVersion, VersionAddress
from omnigraph.load.input_files import file_errors, is_plain_utf8, line_blocks, parquet_input
from omnigraph.load.parsed_rows import Lines, ParsedBlock, ParsedRows
from omnigraph.load.patch_rows import storable_patches
from omnigraph.load.prepare_rows import (
    BrokenRows,
    PreparedRows,
    RejectedRows,
    RowJudge,
)
from omnigraph.load.rejects import RejectRules
from omnigraph.load.sources import (
    ReadOptions,
    Source,
    entity_of,
    fit_source_table,
    has_array,
    json_parser,
    read_source,
)
from omnigraph.settings.models import EmbeddingSettings
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph.values.identifiers import TableKey
from omnigraph.values.scalars import VectorType
from omnigraph.writes.derived import fill_embeddings
from omnigraph.writes.row_compare import Mask

RESULT = "task long, result binary"

_ROWS_PER_BATCH = 64 * 1024
_BYTES_PER_BATCH = 32 * 1024**2
_ROWS_PER_FRAGMENT = 1024 * 1024
_BYTES_PER_FRAGMENT = 256 * 1024**2
_SMALLEST_PIECE = 4 * 1024**2
_PIECES_PER_SLOT = 2


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What every task of a load needs to know. Pickles."""

    catalog: Catalog
    targets: Mapping[TableKey, VersionAddress]
    typed_options: Mapping[str, ReadOptions]
    """By type, for sources that have one."""
    options: ReadOptions
    """For sources whose rows name their types."""
    embedding: EmbeddingSettings
    """The graph's own settings if a property wants vectors; workers then need the key."""
    now_millis: int
    """The `now()` of defaults."""
    rules: RejectRules = field(default_factory=RejectRules)

    def reading(self, source: Source) -> ReadOptions:
        """How to read this source."""
        return self.typed_options.get(source.type_name or "", self.options)


@dataclass(frozen=True, slots=True)
class BegunLoad:
    """The first half of a load in two phases: where tasks write the rows of one frame. Pickles."""

    source: Source
    plan: LoadPlan
    key: TableKey
    home: DatasetVersion
    begun_at: int
    """Microseconds: no file of the load is older."""


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """Prepared rows of one type that a worker wrote as fragments, in line order."""

    key: TableKey
    fragments: tuple[str, ...]
    rows: int
    lines: bytes
    """The line of each row from the beginning of the piece, from `encode_lines`."""
    given: bytes | None
    """Which rows came with an id or a key, compressed; None when all did."""
    absent: bytes | None = None
    """What each row leaves out, from `encode_texts`; see `PreparedRows.absent`."""
    before: int = 0
    """The place before the first line of the piece; the driver sets it."""

    def places(self) -> Lines:
        return decode_lines(self.lines) + self.before

    def has_id(self) -> Mask | None:
        """Which rows came with an id or a key; None when all did."""
        return None if self.given is None else np.frombuffer(zlib.decompress(self.given), np.bool_)


@dataclass(slots=True)
class TaskResult:
    """What a task reports to the driver. Its lines count from the beginning of its piece."""

    task: int
    lines: int = 0
    parts: list[WrittenRows] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    tally: Tally = field(default_factory=Counter)
    error: OmnigraphError | None = None
    rejected: RejectedRows = field(default_factory=RejectedRows)
    broken: list[BrokenRows] = field(default_factory=list)
    stopped: bool = False
    """The rest of the piece was not read, because too much of it is wrong."""
    before: int = 0
    """The place before the first line of the piece; the driver sets it."""


def run_tasks(plan: LoadPlan, pieces: tuple[InputPiece, ...]) -> Any:
    """A function for `mapInArrow` over the numbers of the pieces."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                result = TaskResult(number)
                piece = pieces[number]
                _run(plan, piece.source, _read_piece(piece, plan, result), result)
                yield _as_batch(result)

    return run


def run_frame(plan: LoadPlan, source: Source, counter: Any = None) -> Any:
    """A function for `mapInArrow` over the rows of a frame; each partition is a task.

    `counter` is an accumulator that gets the rows of each task, for progress.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = import_module("pyspark").TaskContext.get().partitionId()
        result = run_batches(plan, source, batches, task)
        if counter is not None:
            counter.add(result.lines)
        yield _as_batch(result)

    return run


def run_batches(
    plan: LoadPlan, source: Source, batches: Iterable[pa.RecordBatch], task: int
) -> TaskResult:
    """One task whose input are rows of one type, as Spark sends them."""
    result = TaskResult(task)
    _run(plan, source, _read_batches(source, gathered(batches), plan, result), result)
    return result


def _run(plan: LoadPlan, source: Source, blocks: Iterator[ParsedBlock], result: TaskResult) -> None:
    """Prepare and write all blocks of one task, and fill its result."""
    result.rejected.kept = plan.rules.keeps_rows
    judge = RowJudge(Report(), result.rejected, result.broken, now_millis=plan.now_millis)
    writers: dict[TableKey, _FragmentWriter] = {}
    try:
        provider = choose_provider(plan.embedding, os.environ, SYSTEM_CLOCK)
        for block in blocks:
            for rows in _prepared(plan, source, _in_line_order(block), judge, provider):
                key = rows.entity.table_key
                if key not in writers:
                    writers[key] = _FragmentWriter(key, plan.targets[key])
                writers[key].add(rows)
            result.stopped = plan.rules.is_hopeless(len(judge.rejected.rows), judge.report.total)
            if result.stopped:
                break
        # Written also if rows are broken, because the graph rules must see the others.
        for writer in writers.values():
            result.parts += writer.finish()
        failpoints.hit("spark.task_written")
    except OmnigraphError as error:
        # Reported instead of raised, because Spark would repeat the task and fail the same way.
        result.error = error
    result.violations = judge.report.violations
    result.tally = judge.report.tally


def _prepared(
    plan: LoadPlan,
    source: Source,
    block: ParsedBlock,
    judge: RowJudge,
    provider: EmbeddingProvider,
) -> Iterator[PreparedRows]:
    """Rows that can be written. The driver makes whole rows of patches, and checks them then."""
    if plan.reading(source).partial:
        yield from map(storable_patches, judge.patches(block))
        return
    for rows in judge.prepare(block):
        yield _with_vectors(plan, rows, judge.report, provider)


def _with_vectors(
    plan: LoadPlan, rows: PreparedRows, report: Report, provider: EmbeddingProvider
) -> PreparedRows:
    """The rows with their missing vectors; with zeros if the load will fail and not write them."""
    if report.total == 0 or plan.rules.skip:
        return replace(rows, table=fill_embeddings(rows.entity, rows.table, provider))
    table = rows.table
    for declared in rows.entity.properties:
        if embedding_of(declared) is not None and isinstance(declared.type, VectorType):
            position = table.schema.get_field_index(declared.name)
            width = declared.type.width
            zeros = pa.array(np.zeros(table.num_rows * width, np.float32))
            column = pa.FixedSizeListArray.from_arrays(zeros, width)
            table = table.set_column(position, table.schema.field(position), column)
    return replace(rows, table=table)


def _as_batch(result: TaskResult) -> pa.RecordBatch:
    return pa.record_batch({"task": [result.task], "result": [pickle.dumps(result)]})


# Pieces of the input.


@dataclass(frozen=True, slots=True)
class InputPiece:
    """Part of one source: lines that begin in [start, end), row groups, or all of it."""

    file: int
    source: Source
    start: int = 0
    end: int | None = None
    row_groups: tuple[int, ...] | None = None


def cut(
    sources: Sequence[Source], options: ReadOptions, task_bytes: int, slots: int = 1
) -> tuple[InputPiece, ...]:
    """Pieces in input order: at most `task_bytes` each, less when that keeps `slots` tasks busy."""
    share = sum(source.size for source in sources) // (_PIECES_PER_SLOT * slots)
    piece_bytes = min(task_bytes, max(share, _SMALLEST_PIECE))
    pieces: list[InputPiece] = []
    for number, source in enumerate(sources):
        pieces += _cut_one(number, source, options, piece_bytes)
    return tuple(pieces)


def _cut_one(
    number: int, source: Source, options: ReadOptions, piece_bytes: int
) -> list[InputPiece]:
    if _has_ranges(source, options):
        starts = range(0, max(source.size, 1), piece_bytes)
        return [InputPiece(number, source, start, start + piece_bytes) for start in starts]
    if source.format == "parquet" and source.path is not None:
        return _row_groups(number, source, piece_bytes)
    if source.format == "arrow":
        return _slices(number, source, piece_bytes)
    return [InputPiece(number, source)]


def _has_ranges(source: Source, options: ReadOptions) -> bool:
    """Whether tasks can read ranges of the file's lines."""
    if source.format not in ("ndjson", "json") or source.path is None:
        return False
    return is_plain_utf8(source.path, options.text.encoding) and not has_array(source, options)


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
        return [InputPiece(number, source)]  # the task that reads the file reports the error
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


def _read_piece(piece: InputPiece, plan: LoadPlan, result: TaskResult) -> Iterator[ParsedBlock]:
    """The blocks of a piece, whose lines are counted in `result`."""
    source = piece.source
    if source.is_json and piece.end is not None:
        yield from _read_lines(piece, plan, result)
    elif piece.row_groups is not None and source.path is not None:
        with file_errors(source.path), pq.ParquetFile(parquet_input(source.path)) as file:
            groups = list(piece.row_groups)
            batches = file.iter_batches(_ROWS_PER_BATCH, row_groups=groups, use_threads=False)
            yield from _read_batches(source, batches, plan, result)
    elif isinstance(source.table, pa.Table):
        batches = source.table.to_batches(_ROWS_PER_BATCH)
        yield from _read_batches(source, batches, plan, result)
    else:
        yield from read_source(source, plan.catalog, plan.reading(source))


def _read_lines(piece: InputPiece, plan: LoadPlan, result: TaskResult) -> Iterator[ParsedBlock]:
    assert piece.source.path is not None
    parser = json_parser(piece.source, plan.catalog, plan.reading(piece.source))
    for before, lines in line_blocks(piece.source.path, piece.start, piece.end):
        yield parser.parse(lines, before + 1, piece.source.name)
        result.lines = before + lines.count(b"\n")


def _read_batches(
    source: Source, batches: Iterable[pa.RecordBatch], plan: LoadPlan, result: TaskResult
) -> Iterator[ParsedBlock]:
    entity = entity_of(source, plan.catalog)
    for batch in batches:
        table = pa.Table.from_batches([batch])
        yield fit_source_table(source, entity, table, result.lines + 1, plan.reading(source))
        result.lines += batch.num_rows


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of 64 Ki rows or more, or of fewer rows that have many bytes.

    Spark sends batches of 10,000 rows. Lance takes three times the CPU to write rows in these.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= _ROWS_PER_BATCH or size >= _BYTES_PER_BATCH:
            yield pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)


# Rows on their way into fragments.


def _in_line_order(block: ParsedBlock) -> ParsedBlock:
    """The same block with all rows of a type together, in line order: `encode_lines` needs it."""
    by_type: dict[EntityType, list[ParsedRows]] = {}
    for rows in block.rows:
        by_type.setdefault(rows.entity, []).append(rows)
    return replace(block, rows=[_joined(parts) for parts in by_type.values()])


def _joined(parts: list[ParsedRows]) -> ParsedRows:
    if len(parts) == 1 and (np.diff(parts[0].lines) > 0).all():
        return parts[0]
    lines = np.concatenate([part.lines for part in parts])
    order = np.argsort(lines, kind="stable")
    table = pa.concat_tables([part.table for part in parts])
    absent = [part.absent for part in parts if part.absent is not None]
    spelled = pa.concat_arrays(absent).take(pa.array(order)) if absent else None
    return ParsedRows(parts[0].entity, table.take(pa.array(order)), lines[order], spelled)


class _FragmentWriter:
    """Gathers rows of one type and writes them when they fill a fragment."""

    def __init__(self, key: TableKey, target: VersionAddress) -> None:
        self._key = key
        self._target = target
        self._waiting: list[PreparedRows] = []
        self._rows = self._bytes = 0
        self._written: list[WrittenRows] = []

    def add(self, rows: PreparedRows) -> None:
        self._waiting.append(rows)
        self._rows += rows.table.num_rows
        self._bytes += rows.table.nbytes
        if self._rows >= _ROWS_PER_FRAGMENT or self._bytes >= _BYTES_PER_FRAGMENT:
            self._write()

    def finish(self) -> list[WrittenRows]:
        if self._waiting:
            self._write()
        return self._written

    def _write(self) -> None:
        rows = pa.concat_tables([part.table for part in self._waiting])
        has_id = np.concatenate(
            [
                np.ones(len(part.lines), bool) if part.has_id is None else part.has_id
                for part in self._waiting
            ]
        )
        absent = [part.absent for part in self._waiting if part.absent is not None]
        written = WrittenRows(
            self._key,
            write_rows(self._target, rows),
            rows.num_rows,
            encode_lines(np.concatenate([part.lines for part in self._waiting])),
            None if has_id.all() else zlib.compress(has_id.tobytes(), 1),
            encode_texts(pa.concat_arrays(absent)) if absent else None,
        )
        self._written.append(written)
        self._waiting, self._rows, self._bytes = [], 0, 0


def encode_texts(texts: pa.Array) -> bytes:
    """Texts of which there are few different ones."""
    encoded = texts.dictionary_encode()
    found = encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype("<i4").tobytes()
    return zlib.compress(pickle.dumps(found), 1)


def decode_texts(data: bytes) -> pa.Array:
    texts, numbers = pickle.loads(zlib.decompress(data))
    return pa.array(texts, pa.string()).take(pa.array(np.frombuffer(numbers, "<i4")))


def encode_lines(lines: Lines) -> bytes:
    """Ascending line numbers as runs, because most rows follow the line of the row before."""
    starts = np.flatnonzero(np.diff(lines, prepend=lines[:1] - 2) != 1)
    lengths = np.diff(np.append(starts, len(lines)))
    gaps = np.diff(lines[starts], prepend=0)
    return zlib.compress(np.concatenate([gaps, lengths]).astype("<i8").tobytes(), 1)


def decode_lines(data: bytes) -> Lines:
    gaps, lengths = np.frombuffer(zlib.decompress(data), "<i8").reshape(2, -1)
    firsts = np.cumsum(gaps)
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.asarray(np.repeat(firsts, lengths) + within, np.int64)

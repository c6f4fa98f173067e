"""Inputs cut into pieces that workers read on their own: ranges of lines, row groups, files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.catalog.model import Catalog
from omnigraph.load.data_files import parquet_input
from omnigraph.load.json_lines import JsonLines
from omnigraph.load.sources import (
    ReadOptions,
    Source,
    entity_of,
    fit_source_table,
    read_source,
)
from omnigraph.load.text_files import file_errors, line_blocks
from omnigraph.load.typed_rows import Parsed

_ROWS_PER_BATCH = 64 * 1024
_SMALLEST_PIECE = 4 * 1024**2
_PIECES_PER_SLOT = 2


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of one source: lines that begin in [start, end), row groups, or all of it."""

    file: int
    source: Source
    start: int = 0
    end: int | None = None
    row_groups: tuple[int, ...] | None = None


class LineCount(Protocol):
    """Whoever wants to know how many lines a piece had."""

    lines: int


def cut(sources: Sequence[Source], task_bytes: int, slots: int = 1) -> tuple[Piece, ...]:
    """Pieces in input order: at most `task_bytes` each, less when that keeps `slots` tasks busy."""
    share = sum(source.size for source in sources) // (_PIECES_PER_SLOT * slots)
    piece_bytes = min(task_bytes, max(share, _SMALLEST_PIECE))
    pieces: list[Piece] = []
    for number, source in enumerate(sources):
        pieces += _cut_one(number, source, piece_bytes)
    return tuple(pieces)


def _cut_one(number: int, source: Source, piece_bytes: int) -> list[Piece]:
    if source.format == "ndjson" and not source.name.endswith(".gz"):
        size = source.size
        starts = range(0, max(size, 1), piece_bytes)
        return [Piece(number, source, start, start + piece_bytes) for start in starts]
    if source.format == "parquet" and source.path is not None:
        return _row_groups(number, source, piece_bytes)
    if source.table is not None:
        return _slices(number, source, piece_bytes)
    return [Piece(number, source)]


def _slices(number: int, source: Source, piece_bytes: int) -> list[Piece]:
    table = source.table
    if isinstance(table, pa.RecordBatchReader):
        table = table.read_all()
    rows = max(1, table.num_rows * piece_bytes // max(table.nbytes, 1))
    starts = range(0, max(table.num_rows, 1), rows)
    return [Piece(number, replace(source, table=table.slice(start, rows))) for start in starts]


def _row_groups(number: int, source: Source, piece_bytes: int) -> list[Piece]:
    assert source.path is not None
    try:
        metadata = pq.read_metadata(parquet_input(source.path))
    except (OSError, pa.ArrowInvalid):
        return [Piece(number, source)]  # whoever reads it says what is wrong with it
    pieces: list[Piece] = []
    group: list[int] = []
    size = 0
    for index in range(metadata.num_row_groups):
        group.append(index)
        size += metadata.row_group(index).total_byte_size
        if size >= piece_bytes:
            pieces.append(Piece(number, source, row_groups=tuple(group)))
            group, size = [], 0
    if group or not pieces:
        pieces.append(Piece(number, source, row_groups=tuple(group)))
    return pieces


def read_piece(
    piece: Piece, catalog: Catalog, options: ReadOptions, count: LineCount
) -> Iterator[Parsed]:
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
) -> Iterator[Parsed]:
    """Rows of one type; they are numbered from 1."""
    entity = entity_of(source, catalog)
    for batch in batches:
        table = pa.Table.from_batches([batch])
        yield fit_source_table(source, entity, table, count.lines + 1, options)
        count.lines += batch.num_rows


def _read_lines(
    piece: Piece, catalog: Catalog, options: ReadOptions, count: LineCount
) -> Iterator[Parsed]:
    assert piece.source.path is not None
    parser = JsonLines(catalog, options.blobs)
    for before, lines in line_blocks(piece.source.path, piece.start, piece.end):
        yield parser.parse(lines, before + 1, piece.source.name)
        count.lines = before + lines.count(b"\n")

"""CSV: a header that names properties, and one entity a row.

Cells become columns of their property's type, a block at a time. Records that are too long or too
short, and cells whose text is not plainly a value of the type, are read by `parsed_rows.typed_row`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import default_column
from omnigraph.catalog.model import ID, SOURCE, TARGET, EdgeType, EntityType
from omnigraph.errors import InvalidArgument
from omnigraph.load.input_files import DataFile, file_errors, open_unpacked
from omnigraph.load.json_columns import either, one_array, parse_type, read_json, typed_column
from omnigraph.load.parsed_rows import (
    BadLine,
    BlobBases,
    Blocks,
    ParsedBlock,
    ParsedRows,
    Row,
    raw_schema,
    rows_to_table,
    typed_row,
)
from omnigraph.values.arrow_types import arrow_type
from omnigraph.values.scalars import (
    FLOAT_KINDS,
    INTEGER_BOUNDS,
    INTEGER_KINDS,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)
from omnigraph.writes.row_compare import Mask

_ROWS_PER_BLOCK = 20_000
_INTEGER = r"^-?(0|[1-9]\d{0,17})$"
_NUMBER = r"^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$"
_ENDS = {"from": SOURCE, "to": TARGET, "src": SOURCE, "dst": TARGET}
_TEXT = ScalarType(ScalarKind.STRING)
_LARGEST_CELL = 256 * 1024 * 1024


def csv_blocks(
    path: DataFile, entity: EntityType, columns: Mapping[str, str] | None, blobs: BlobBases
) -> Blocks:
    """`columns` maps header names to property names; an empty cell is NULL."""
    csv.field_size_limit(_LARGEST_CELL)
    with file_errors(path), _open(path) as file:
        try:
            yield from _rows(csv.reader(file, strict=True), path, entity, columns or {}, blobs)
        except UnicodeDecodeError as error:
            raise InvalidArgument(f"{path}: not UTF-8 text", file=str(path)) from error


def csv_header(path: DataFile) -> list[str]:
    """The names in the file, before `columns` maps them."""
    with file_errors(path), _open(path) as file:
        try:
            return next(_records(csv.reader(file, strict=True), path), [])
        except UnicodeDecodeError as error:
            raise InvalidArgument(f"{path}: not UTF-8 text", file=str(path)) from error


def _open(path: DataFile) -> TextIO:
    return io.TextIOWrapper(open_unpacked(path), encoding="utf-8-sig", newline="")


def _rows(
    reader: Any, path: DataFile, entity: EntityType, columns: Mapping[str, str], blobs: BlobBases
) -> Blocks:
    names = _header(reader, path, entity, columns)
    line = reader.line_num + 1
    records, lines = list[list[str]](), list[int]()
    for cells in _records(reader, path):
        if cells:
            records.append(cells)
            lines.append(line)
        line = reader.line_num + 1
        if len(records) == _ROWS_PER_BLOCK:
            yield parse_records(str(path), entity, names, records, lines, blobs)
            records, lines = [], []
    yield parse_records(str(path), entity, names, records, lines, blobs)


def parse_records(
    file: str,
    entity: EntityType,
    names: list[str],
    records: list[list[str]],
    lines: list[int],
    blobs: BlobBases,
) -> ParsedBlock:
    """Read column by column; doubtful records are read again, one by one."""
    whole = np.array([len(cells) == len(names) for cells in records], dtype=bool)
    places = np.array(lines, dtype=np.int64)
    members = np.flatnonzero(whole)
    block = ParsedBlock(file)
    slow = np.flatnonzero(~whole)
    if len(members):
        good = records if len(slow) == 0 else [records[m] for m in members.tolist()]
        table, bad = _typed(entity, dict(zip(names, zip(*good, strict=True), strict=True)))
        if bad is not None:
            slow = np.sort(np.concatenate([slow, members[bad]]))
            table, members = table.filter(pa.array(~bad)), members[~bad]
        if len(members):
            block.rows.append(ParsedRows(entity, table, places[members]))
    chosen = slow.tolist()
    _read_slowly(
        entity, names, [records[m] for m in chosen], [lines[m] for m in chosen], blobs, block
    )
    return block


def parse_records_slowly(
    file: str,
    entity: EntityType,
    names: list[str],
    records: list[list[str]],
    lines: list[int],
    blobs: BlobBases,
) -> ParsedBlock:
    """The definition of what `parse_records` does."""
    block = ParsedBlock(file)
    _read_slowly(entity, names, records, lines, blobs, block)
    return block


def _typed(entity: EntityType, cells: Mapping[str, Sequence[str]]) -> tuple[pa.Table, Mask | None]:
    """(the typed rows, a mask of the rows that must be read one by one)."""
    kinds: dict[str, ValueType] = {p.name: p.type for p in entity.properties}
    schema = raw_schema(entity)
    count = len(next(iter(cells.values())))
    columns: list[pa.Array] = []
    bad: Mask | None = None
    for field in schema:
        if field.name not in cells:
            columns.append(default_column(entity, field, count))
            continue
        given = pa.array(cells[field.name], pa.string())
        texts = pc.if_else(pc.equal(given, ""), pa.scalar(None, pa.string()), given)
        column, strange = _column_of_texts(kinds.get(field.name, _TEXT), texts)
        columns.append(column)
        bad = either(bad, strange)
    return pa.table(columns, schema=schema), bad


def _column_of_texts(kind: ValueType, texts: pa.Array) -> tuple[pa.Array, Mask | None]:
    """(the column, a mask of cells that must be read one by one and are NULL in the column)."""
    match kind:
        case ScalarType(ScalarKind.BOOL):
            return _booleans(texts)
        case ScalarType(scalar) if scalar in INTEGER_KINDS:
            return _integers(texts, scalar)
        case ScalarType(scalar) if scalar in FLOAT_KINDS:
            return _numbers(texts, kind)
        case ListType() | VectorType():
            return _lists(texts, kind)
        case _:
            return typed_column(kind, texts)


def _booleans(texts: pa.Array) -> tuple[pa.Array, Mask | None]:
    readable, bad = _matching(texts, "^(true|false)$")
    return pc.equal(readable, "true"), bad


def _integers(texts: pa.Array, kind: ScalarKind) -> tuple[pa.Array, Mask | None]:
    readable, bad = _matching(texts, _INTEGER)
    numbers = readable.cast(pa.int64())
    low, high = (max(-(2**63), min(bound, 2**63 - 1)) for bound in INTEGER_BOUNDS[kind])
    inside = pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high))
    outside = ~_bools(pc.fill_null(inside, True))
    if outside.any():
        numbers = pc.if_else(pa.array(outside), None, numbers)
        bad = either(bad, outside)
    return numbers.cast(arrow_type(ScalarType(kind))), bad


def _numbers(texts: pa.Array, kind: ValueType) -> tuple[pa.Array, Mask | None]:
    readable, bad = _matching(texts, _NUMBER)
    column, strange = typed_column(kind, readable.cast(pa.float64()))
    return column, either(bad, strange)


def _lists(texts: pa.Array, kind: ValueType) -> tuple[pa.Array, Mask | None]:
    """Arrow reads the cells as JSON lines of one property; if it fails, all are doubtful."""
    unread = pa.nulls(len(texts), arrow_type(kind)), _bools(texts.is_valid())
    lines = pc.binary_join_element_wise('{"v":', pc.fill_null(texts, "null"), "}\n", "")
    data = "".join(lines.to_pylist()).encode()
    schema = pa.schema([pa.field("v", parse_type(kind))])
    table = read_json(data, schema)
    if table is None or table.num_rows != len(texts):
        return unread
    if pc.any(pc.match_substring(texts, "\n")).as_py():
        return unread
    return typed_column(kind, one_array(table.column("v")))


def _matching(texts: pa.Array, pattern: str) -> tuple[pa.Array, Mask | None]:
    """(the texts that match and NULL for others, a mask of the others)."""
    bad = ~_bools(pc.fill_null(pc.match_substring_regex(texts, pattern=pattern), True))
    if not bad.any():
        return texts, None
    return pc.if_else(pa.array(bad), pa.scalar(None, pa.string()), texts), bad


def _bools(condition: pa.Array) -> Mask:
    return np.asarray(condition.to_numpy(zero_copy_only=False), dtype=bool)


def _read_slowly(
    entity: EntityType,
    names: list[str],
    records: list[list[str]],
    lines: list[int],
    blobs: BlobBases,
    block: ParsedBlock,
) -> None:
    kinds: dict[str, ValueType] = {p.name: p.type for p in entity.properties}
    rows, places = list[Row](), list[int]()
    for cells, line in zip(records, lines, strict=True):
        try:
            rows.append(_row(entity, names, kinds, cells, blobs))
            places.append(line)
        except BadLine as bad:
            block.problems.append(bad.at(line))
    if rows:
        table = rows_to_table(entity, rows)
        block.rows.append(ParsedRows(entity, table, np.array(places, dtype=np.int64)))


def _records(reader: Any, path: DataFile) -> Iterator[list[str]]:
    try:
        yield from reader
    except csv.Error as error:
        raise InvalidArgument(
            f"{path}:{reader.line_num}: not CSV: {error}", file=str(path), line=reader.line_num
        ) from error


def _header(
    reader: Any, path: DataFile, entity: EntityType, columns: Mapping[str, str]
) -> list[str]:
    header = next(_records(reader, path), None)
    if header is None:
        raise InvalidArgument(f"{path}:1: the file is empty, it has no header", file=str(path))
    names = [columns.get(name, name) for name in header]
    if isinstance(entity, EdgeType):
        names = [_ENDS.get(name, name) for name in names]
    known = {ID, *(p.name for p in entity.properties)}
    if isinstance(entity, EdgeType):
        known |= {SOURCE, TARGET}
    unknown = [h for h, name in zip(header, names, strict=True) if name not in known]
    if unknown:
        raise InvalidArgument(
            f"{path}:1: {entity.name} has no property {unknown[0]!r}; map the header with "
            f"columns={{{unknown[0]!r}: 'property'}} (--column {unknown[0]!r}=property)",
            file=str(path),
            line=1,
            property=unknown[0],
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidArgument(f"{path}:1: {twice!r} occurs twice", file=str(path), line=1)
    return names


def _row(
    entity: EntityType,
    names: list[str],
    kinds: Mapping[str, ValueType],
    cells: list[str],
    blobs: BlobBases,
) -> Row:
    if len(cells) != len(names):
        raise BadLine("syntax", f"{len(cells)} cells for {len(names)} columns", entity)
    given: dict[str, Any] = {}
    ends: Row = {}
    for name, cell in zip(names, cells, strict=True):
        if cell == "":
            given |= {} if name in (SOURCE, TARGET) else {name: None}
        elif name in (SOURCE, TARGET):
            ends[name] = cell
        else:
            given[name] = _value(entity, name, cell, kinds.get(name))
    return typed_row(entity, given, blobs) | ends


def _value(entity: EntityType, name: str, cell: str, kind: ValueType | None) -> Any:
    """The JSON value that a cell spells for this type."""
    match kind:
        case ScalarType(ScalarKind.BOOL) if cell in ("true", "false"):
            return cell == "true"
        case ScalarType(scalar) if scalar in INTEGER_KINDS | FLOAT_KINDS:
            return _json(entity, name, cell)
        case ListType() | VectorType():
            return _json(entity, name, cell)
        case _:
            return cell


def _json(entity: EntityType, name: str, cell: str) -> Any:
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        raise BadLine("type", f"{name!r}: {cell[:40]!r} cannot be read", entity, name) from None

"""CSV: a header that names properties, one entity a row; cells are read by the type they fill."""

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
from omnigraph.load.data_files import DataFile, open_unpacked
from omnigraph.load.json_columns import Mask
from omnigraph.load.line_values import BadLine, BlobBases, Row, rows_to_table, typed_row
from omnigraph.load.text_columns import column_of_texts
from omnigraph.load.text_files import file_errors
from omnigraph.load.typed_rows import Blocks, Collected, TypedRows, raw_schema
from omnigraph.values.scalars import (
    FLOAT_KINDS,
    INTEGER_KINDS,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)

_ROWS_PER_BLOCK = 20_000
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
    """The first record as it is, before names are mapped."""
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
            yield parse_records(entity, names, records, lines, blobs).parsed(str(path), 0)
            records, lines = [], []
    yield parse_records(entity, names, records, lines, blobs).parsed(str(path), 0)


def parse_records(
    entity: EntityType,
    names: list[str],
    records: list[list[str]],
    lines: list[int],
    blobs: BlobBases,
) -> Collected:
    """Column by column; what that does not vouch for is read record by record."""
    whole = np.array([len(cells) == len(names) for cells in records], dtype=bool)
    places = np.array(lines, dtype=np.int64)
    members = np.flatnonzero(whole)
    collected = Collected()
    slow = np.flatnonzero(~whole)
    if len(members):
        good = records if len(slow) == 0 else [records[m] for m in members.tolist()]
        table, bad = _typed(entity, dict(zip(names, zip(*good, strict=True), strict=True)))
        if bad is not None:
            slow = np.sort(np.concatenate([slow, members[bad]]))
            table, members = table.filter(pa.array(~bad)), members[~bad]
        if len(members):
            collected.rows.append(TypedRows(entity, table, places[members]))
    chosen = slow.tolist()
    _read_slowly(
        entity, names, [records[m] for m in chosen], [lines[m] for m in chosen], blobs, collected
    )
    return collected


def parse_records_slowly(
    entity: EntityType,
    names: list[str],
    records: list[list[str]],
    lines: list[int],
    blobs: BlobBases,
) -> Collected:
    """The definition of what `parse_records` does."""
    collected = Collected()
    _read_slowly(entity, names, records, lines, blobs, collected)
    return collected


def _typed(entity: EntityType, cells: Mapping[str, Sequence[str]]) -> tuple[pa.Table, Mask | None]:
    """(the typed rows, which of them are to be read one by one)."""
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
        column, strange = column_of_texts(kinds.get(field.name, _TEXT), texts)
        columns.append(column)
        if strange is not None:
            bad = strange if bad is None else bad | strange
    return pa.table(columns, schema=schema), bad


def _read_slowly(
    entity: EntityType,
    names: list[str],
    records: list[list[str]],
    lines: list[int],
    blobs: BlobBases,
    collected: Collected,
) -> None:
    kinds: dict[str, ValueType] = {p.name: p.type for p in entity.properties}
    rows, places = list[Row](), list[int]()
    for cells, line in zip(records, lines, strict=True):
        try:
            rows.append(_row(entity, names, kinds, cells, blobs))
            places.append(line)
        except BadLine as bad:
            collected.problems.append(bad.at(line))
    if rows:
        table = rows_to_table(entity, rows)
        collected.rows.append(TypedRows(entity, table, np.array(places, dtype=np.int64)))


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

"""CSV: a header that names properties, one entity a row; cells are read by the type they fill."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from omnigraph.catalog.columns import ID, SOURCE, TARGET
from omnigraph.catalog.model import EdgeType, EntityType
from omnigraph.errors import InvalidArgument
from omnigraph.load.line_values import BadLine, BlobBases, Row, rows_to_table, typed_row
from omnigraph.load.text_files import file_errors
from omnigraph.load.typed_rows import Blocks, Collected, TypedRows
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
_LARGEST_CELL = 256 * 1024 * 1024


def csv_blocks(
    path: Path, entity: EntityType, columns: Mapping[str, str] | None, blobs: BlobBases
) -> Blocks:
    """`columns` maps header names to property names; an empty cell is NULL."""
    csv.field_size_limit(_LARGEST_CELL)
    with file_errors(path), _open(path) as file:
        try:
            yield from _rows(csv.reader(file, strict=True), path, entity, columns or {}, blobs)
        except UnicodeDecodeError as error:
            raise InvalidArgument(f"{path}: not UTF-8 text", file=str(path)) from error


def _open(path: Path) -> TextIO:
    if path.name.endswith(".gz"):
        return io.TextIOWrapper(gzip.open(path, "rb"), encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _rows(
    reader: Any, path: Path, entity: EntityType, columns: Mapping[str, str], blobs: BlobBases
) -> Blocks:
    names = _header(reader, path, entity, columns)
    kinds: dict[str, ValueType] = {p.name: p.type for p in entity.properties}
    line = reader.line_num + 1
    collected, rows, lines = Collected(), list[Row](), list[int]()
    for cells in _records(reader, path):
        here, line = line, reader.line_num + 1
        if not cells:
            continue
        try:
            rows.append(_row(entity, names, kinds, cells, blobs))
            lines.append(here)
        except BadLine as bad:
            collected.problems.append(bad.at(here))
        if len(rows) + len(collected.problems) >= _ROWS_PER_BLOCK:
            yield _block(collected, entity, rows, lines, path)
            collected, rows, lines = Collected(), [], []
    yield _block(collected, entity, rows, lines, path)


def _records(reader: Any, path: Path) -> Iterator[list[str]]:
    try:
        yield from reader
    except csv.Error as error:
        raise InvalidArgument(
            f"{path}:{reader.line_num}: not CSV: {error}", file=str(path), line=reader.line_num
        ) from error


def _block(
    collected: Collected, entity: EntityType, rows: list[Row], lines: list[int], path: Path
) -> Any:
    if rows:
        places = np.array(lines, dtype=np.int64)
        collected.rows.append(TypedRows(entity, rows_to_table(entity, rows), places))
    return collected.parsed(str(path), 0)


def _header(reader: Any, path: Path, entity: EntityType, columns: Mapping[str, str]) -> list[str]:
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
            "columns={'header': 'property'}",
            file=str(path),
            line=1,
            property=unknown[0],
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidArgument(f"{path}:1: {twice!r} occurs twice", file=str(path), line=1)
    unused = next((name for name in columns if name not in header), None)
    if unused is not None:
        raise InvalidArgument(f"{path}:1: no column {unused!r} to map", file=str(path), line=1)
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

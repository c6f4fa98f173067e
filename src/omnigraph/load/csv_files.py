"""CSV: a header that names properties, and one entity a row.

Cells become columns of their property's type, a block at a time. Records that are too long or too
short, and cells whose text is not plainly a value of the type, are read by `parsed_rows.typed_row`.

An empty cell is NULL. A quoted empty cell (`""`) of a String property is the empty text. Python's
`csv` does not tell the two apart, so records are looked at again where the text holds two quotes in
a row, which is rare.
"""

from __future__ import annotations

import csv
import functools
import json
import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import default_column
from omnigraph.catalog.model import SOURCE, TARGET, EdgeType, EntityType
from omnigraph.errors import InvalidArgument
from omnigraph.load.input_files import (
    DataFile,
    TextForm,
    open_text,
    unpacked_name,
)
from omnigraph.load.json_columns import either, one_array, parse_type, read_json, typed_column
from omnigraph.load.parsed_rows import (
    BadLine,
    BlobBases,
    Blocks,
    ParsedBlock,
    ParsedRows,
    Row,
    SlowRows,
    TypedRow,
    raw_schema,
    typed_row,
    unknown_column,
    with_absent,
)
from omnigraph.values.arrow_types import arrow_type
from omnigraph.values.coercion import describe, refusal
from omnigraph.values.plurals import counted
from omnigraph.values.scalars import (
    FLOAT_KINDS,
    INTEGER_BOUNDS,
    INTEGER_KINDS,
    NUMERIC_KINDS,
    TEMPORAL_KINDS,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)
from omnigraph.values.temporal import FIRST_DAY, FIRST_MILLI, LAST_DAY, LAST_MILLI
from omnigraph.writes.row_compare import Mask

_ROWS_PER_BLOCK = 20_000
_CHARACTERS_AT_ONCE = 256 * 1024
_INTEGER = r"^-?(0|[1-9]\d{0,17})$"
_NUMBER = r"^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$"
_EPOCH = r"^-?\d{1,15}$"
_TRUE, _FALSE = ("true", "yes", "1"), ("false", "no", "0")
"""The spellings of Bool, in any letter case."""
_INTEGER_CELL = re.compile(r"[-+]?\d+")
_NUMBER_CELL = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_COMMA_CELL = re.compile(r"[-+]?\d[\d.,' ]*,[\d.,' ]*")
_ENDS = {"from": SOURCE, "to": TARGET}
_TEXT = ScalarType(ScalarKind.STRING)
_LARGEST_CELL = 256 * 1024 * 1024
_DETECTED = ";\t|"
"""Delimiters that a header without a comma may have; no property name holds one of them."""


@dataclass(slots=True)
class CsvRecords:
    """Consecutive records, the line on which each begins, and their quoted empty cells."""

    cells: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    blank: dict[int, set[int]] = field(default_factory=dict)
    """Number of a record -> columns in which it has a quoted empty cell."""

    def as_read(self, header: list[str], line: int) -> Any:
        """The cells of a record by their headers; a list if there are more or fewer cells."""
        cells = self.cells[bisect_left(self.lines, line)]
        return dict(zip(header, cells, strict=True)) if len(cells) == len(header) else cells

    def chosen(self, numbers: list[int]) -> CsvRecords:
        return CsvRecords(
            [self.cells[n] for n in numbers],
            [self.lines[n] for n in numbers],
            {new: self.blank[old] for new, old in enumerate(numbers) if old in self.blank},
        )


def csv_blocks(
    path: DataFile,
    entity: EntityType,
    columns: Mapping[str, str] | None,
    blobs: BlobBases,
    form: TextForm,
    *,
    partial: bool = False,
) -> Blocks:
    """`columns` maps header names to property names; an empty cell is NULL.

    `partial`: the rows are patches.
    """
    with open_text(path, form.encoding) as file:
        reader = _RecordReader(file, path, form)
        header = reader.header()
        names = _property_names(header, path, entity, columns or {})
        position = 0
        for records in reader.blocks():
            block = parse_records(str(path), entity, names, records, blobs)
            block.as_read = functools.partial(records.as_read, header)
            before, position = position, _position(file)
            block.bytes_read = max(position - before, 0)
            with_absent(block, names, partial=partial)
            yield block


def csv_header(path: DataFile, form: TextForm) -> list[str]:
    """The names in the file, before `columns` maps them."""
    with open_text(path, form.encoding) as file:
        return _RecordReader(file, path, form).header()


def _position(file: TextIO) -> int:
    """How many bytes were read, for progress; 0 if the file cannot tell."""
    try:
        return file.buffer.tell()
    except OSError:
        return 0


class _RecordReader:
    """The records of one open file, which is read in parts of whole lines.

    In a part without a quote every line is one record. Such parts are read at once, because that is
    faster. In other parts a record may have several lines, so records are read one by one.
    """

    def __init__(self, file: TextIO, path: DataFile, form: TextForm) -> None:
        csv.field_size_limit(_LARGEST_CELL)
        first = file.readline()
        self._path = path
        self._quote = form.quote or '"'
        self._delimiter = form.delimiter or _delimiter(path.name, first, self._quote)
        self._plain_lines = 0
        """Lines of the present part that are not read yet, if it has no quote."""
        self._raw: list[str] = []
        """The lines of the present record, where they may hold a quoted empty cell."""
        lines = chain.from_iterable(self._parts(first, file))
        self._reader = csv.reader(
            lines, strict=True, delimiter=self._delimiter, quotechar=self._quote
        )
        quote, delimiter = re.escape(self._quote), re.escape(self._delimiter)
        self._cell = re.compile(
            f"(?:^|{delimiter})(?:({quote}(?:[^{quote}]|{quote}{quote})*{quote})|[^{delimiter}]*)"
        )

    def header(self) -> list[str]:
        with self._csv_errors():
            found = next(self._reader, [])
        self._raw.clear()
        return found

    def blocks(self) -> Iterator[CsvRecords]:
        """The records after the header; there is at least one block."""
        records = CsvRecords()
        with self._csv_errors():
            line = self._reader.line_num + 1
            for cells in self._reader:
                self._add(cells, line, records)
                if self._plain_lines:
                    self._add_plain(records)
                line = self._reader.line_num + 1
                if len(records.cells) >= _ROWS_PER_BLOCK:
                    yield records
                    records = CsvRecords()
        yield records

    def _parts(self, first: str, file: TextIO) -> Iterator[Iterable[str]]:
        """The lines of the file; those of a part with two quotes in a row are kept in `_raw`."""
        part = [first]
        while part:
            text = "".join(part)
            self._plain_lines = 0 if self._quote in text else len(part) - 1
            yield self._kept(part) if self._quote * 2 in text else part
            part = file.readlines(_CHARACTERS_AT_ONCE)

    def _kept(self, part: list[str]) -> Iterator[str]:
        for line in part:
            self._raw.append(line)
            yield line

    def _add(self, cells: list[str], line: int, records: CsvRecords) -> None:
        if self._raw:
            self._find_blank(cells, records)
        if cells:
            records.cells.append(cells)
            records.lines.append(line)

    def _add_plain(self, records: CsvRecords) -> None:
        """Add the other records of a part in which every line is a record."""
        line = self._reader.line_num + 1
        cells = list(islice(self._reader, self._plain_lines))
        lines = range(line, line + len(cells))
        self._plain_lines = 0
        if not all(cells):  # a blank line
            records.lines += [n for n, found in zip(lines, cells, strict=True) if found]
            records.cells += [found for found in cells if found]
        else:
            records.lines += lines
            records.cells += cells

    @contextmanager
    def _csv_errors(self) -> Iterator[None]:
        try:
            yield
        except csv.Error as error:
            line = self._reader.line_num
            raise InvalidArgument(
                f"{self._path}:{line}: not CSV: {error}", file=str(self._path), line=line
            ) from error

    def _find_blank(self, cells: list[str], records: CsvRecords) -> None:
        raw = "".join(self._raw)
        self._raw.clear()
        if "" not in cells or self._quote * 2 not in raw:
            return
        spelled = (found[1] for found in self._cell.finditer(raw))
        blank = {column for column, text in enumerate(spelled) if text == self._quote * 2}
        if blank:
            records.blank[len(records.cells)] = blank


def _delimiter(name: str, first_line: str, quote: str) -> str:
    """A comma; a tab in `.tsv` files; what a header without a comma holds instead of it."""
    if unpacked_name(name).lower().endswith(".tsv"):
        return "\t"
    header = next(csv.reader([first_line], quotechar=quote), [])
    if len(header) != 1:
        return ","
    return next((each for each in _DETECTED if each in header[0]), ",")


def parse_records(
    file: str, entity: EntityType, names: list[str], records: CsvRecords, blobs: BlobBases
) -> ParsedBlock:
    """Read column by column; doubtful records are read again, one by one."""
    lengths = np.fromiter(map(len, records.cells), np.int64, len(records.cells))
    whole = lengths == len(names)
    places = np.array(records.lines, dtype=np.int64)
    members = np.flatnonzero(whole)
    block = ParsedBlock(file)
    slow = np.flatnonzero(~whole)
    if len(members):
        good = records if whole.all() else records.chosen(members.tolist())
        table, bad = _typed(entity, names, good)
        if bad is not None:
            slow = np.sort(np.concatenate([slow, members[bad]]))
            table, members = table.filter(pa.array(~bad)), members[~bad]
        if len(members):
            block.rows.append(ParsedRows(entity, table, places[members]))
    if len(slow):
        _read_slowly(entity, names, records.chosen(slow.tolist()), blobs, block)
    return block


def parse_records_slowly(
    file: str, entity: EntityType, names: list[str], records: CsvRecords, blobs: BlobBases
) -> ParsedBlock:
    """The definition of what `parse_records` does."""
    block = ParsedBlock(file)
    _read_slowly(entity, names, records, blobs, block)
    return block


def _typed(
    entity: EntityType, names: list[str], records: CsvRecords
) -> tuple[pa.Table, Mask | None]:
    """(the typed rows, a mask of the rows that must be read one by one)."""
    kinds: dict[str, ValueType] = {p.name: p.type for p in entity.properties}
    cells = dict(zip(names, zip(*records.cells, strict=True), strict=True))
    schema = raw_schema(entity)
    count = len(records.cells)
    columns: list[pa.Array] = []
    bad: Mask | None = None
    for each in schema:
        if each.name not in cells:
            columns.append(default_column(entity, each, count))
            continue
        given = pa.array(cells[each.name], pa.string())
        texts = pc.if_else(pc.equal(given, ""), pa.scalar(None, pa.string()), given)
        kind = kinds.get(each.name)
        if kind == _TEXT and records.blank:
            texts = _with_blank_texts(texts, records, names.index(each.name))
        column, strange = _column_of_texts(kind or _TEXT, texts)
        columns.append(column)
        bad = either(bad, strange)
    return pa.table(columns, schema=schema), bad


def _with_blank_texts(texts: pa.Array, records: CsvRecords, column: int) -> pa.Array:
    blank = np.zeros(len(texts), dtype=bool)
    blank[[row for row, columns in records.blank.items() if column in columns]] = True
    return pc.if_else(pa.array(blank), pa.scalar("", pa.string()), texts)


def _column_of_texts(kind: ValueType, texts: pa.Array) -> tuple[pa.Array, Mask | None]:
    """(the column, a mask of cells that must be read one by one and are NULL in the column)."""
    match kind:
        case ScalarType(ScalarKind.BOOL):
            return _booleans(texts)
        case ScalarType(scalar) if scalar in INTEGER_KINDS:
            return _integers(texts, scalar)
        case ScalarType(scalar) if scalar in FLOAT_KINDS:
            return _numbers(texts, kind)
        case ScalarType(scalar) if scalar in TEMPORAL_KINDS:
            return _moments(texts, kind)
        case ListType() | VectorType():
            return _lists(texts, kind)
        case _:
            return typed_column(kind, texts)


def _booleans(texts: pa.Array) -> tuple[pa.Array, Mask | None]:
    readable, bad = _matching(texts, "^(true|false)$")
    if bad is not None:
        texts = pc.ascii_lower(texts)
        readable, bad = _matching(texts, f"^({'|'.join((*_TRUE, *_FALSE))})$")
    found = pc.is_in(readable, pa.array(_TRUE))
    return pc.if_else(readable.is_valid(), found, None), bad


def _moments(texts: pa.Array, kind: ScalarType) -> tuple[pa.Array, Mask | None]:
    """Dates and moments; a block may hold epoch numbers instead."""
    column, bad = typed_column(kind, texts)
    if bad is None or not pc.all(pc.match_substring_regex(texts, pattern=_EPOCH)).as_py():
        return column, bad
    numbers = texts.cast(pa.int64())
    low, high = _EPOCHS[kind.kind]
    outside = _outside(numbers, low, high)
    if outside.any():
        return column, bad
    stored = pa.int32() if kind.kind is ScalarKind.DATE else pa.int64()
    return numbers.cast(stored).view(arrow_type(kind)), None


def _outside(numbers: pa.Array, low: int, high: int) -> Mask:
    inside = pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high))
    return ~_bools(pc.fill_null(inside, True))


def _integers(texts: pa.Array, kind: ScalarKind) -> tuple[pa.Array, Mask | None]:
    readable, bad = _matching(texts, _INTEGER)
    if bad is not None:
        # pandas writes integers with a fraction of zero where one of them is missing.
        whole = pc.replace_substring_regex(texts, r"^(-?\d{1,15})\.0+$", r"\1")
        readable, bad = _matching(whole, _INTEGER)
    numbers = readable.cast(pa.int64())
    low, high = (max(-(2**63), min(bound, 2**63 - 1)) for bound in INTEGER_BOUNDS[kind])
    outside = _outside(numbers, low, high)
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
    records: CsvRecords,
    blobs: BlobBases,
    block: ParsedBlock,
) -> None:
    kinds: dict[str, ValueType] = {p.name: p.type for p in entity.properties}
    found = SlowRows()
    for number, (cells, line) in enumerate(zip(records.cells, records.lines, strict=True)):
        if len(cells) == len(names):
            blank = records.blank.get(number, set())
            found.add(_row(entity, names, kinds, cells, blank, blobs), line)
        else:
            message = f"{counted(len(cells), 'cell')} for {counted(len(names), 'column')}"
            found.refuse(BadLine("syntax", message, entity), line)
    found.give_to(block)


def _property_names(
    header: list[str], path: DataFile, entity: EntityType, columns: Mapping[str, str]
) -> list[str]:
    """The property of every column."""
    if not header:
        raise InvalidArgument(
            f"{path}:1: the file is empty: no header and no rows", file=str(path), line=1
        )
    names = [columns.get(name, name) for name in header]
    if isinstance(entity, EdgeType):
        names = [_ENDS.get(name, name) for name in names]
    known = raw_schema(entity).names
    unknown = next((h for h, name in zip(header, names, strict=True) if name not in known), None)
    if unknown is not None:
        raise InvalidArgument(
            f"{path}:1: {unknown_column(entity, unknown)}{_delimiter_hint(unknown)}",
            file=str(path),
            line=1,
            property=unknown,
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidArgument(f"{path}:1: {twice!r} occurs twice", file=str(path), line=1)
    return names


def _delimiter_hint(name: str) -> str:
    found = next((each for each in _DETECTED if each in name), None)
    if found is None:
        return ""
    spelled = "tab" if found == "\t" else f"'{found}'"
    return f"; if {spelled} separates the columns, give --delimiter {spelled}"


def _row(
    entity: EntityType,
    names: list[str],
    kinds: Mapping[str, ValueType],
    cells: list[str],
    blank: Collection[int],
    blobs: BlobBases,
) -> TypedRow:
    given: dict[str, Any] = {}
    ends: Row = {}
    unread: list[BadLine] = []
    for column, (name, cell) in enumerate(zip(names, cells, strict=True)):
        if cell == "" and column in blank and kinds.get(name) == _TEXT:
            given[name] = ""
        elif cell == "":
            given |= {} if name in (SOURCE, TARGET) else {name: None}
        elif name in (SOURCE, TARGET):
            ends[name] = cell
        else:
            try:
                given[name] = _value(entity, name, cell, kinds.get(name))
            except BadLine as bad:
                given[name] = None  # not the default
                unread.append(bad)
    row = typed_row(entity, given, blobs)
    row.values |= ends
    row.problems += unread
    return row


def _value(entity: EntityType, name: str, cell: str, kind: ValueType | None) -> Any:
    """The JSON value that a cell spells for this type; the cell itself if it spells none."""
    match kind:
        case ScalarType(ScalarKind.BOOL):
            return _bool(entity, name, cell)
        case ScalarType(scalar) if scalar in NUMERIC_KINDS:
            return _number(entity, name, cell.strip(), scalar)
        case ScalarType(scalar) if scalar in TEMPORAL_KINDS:
            return _short_integer(cell.strip())
        case ListType() | VectorType():
            return _list(entity, name, cell, kind)
        case _:
            return cell


def _bool(entity: EntityType, name: str, cell: str) -> bool:
    spelled = cell.strip().lower()
    if spelled in _TRUE or spelled in _FALSE:
        return spelled in _TRUE
    error = refusal(cell, ScalarType(ScalarKind.BOOL), "true or false (or yes, no, 1, 0)")
    raise BadLine("type", f"{name!r}: {error.message}", entity, name)


def _number(entity: EntityType, name: str, cell: str, kind: ScalarKind) -> Any:
    if _COMMA_CELL.fullmatch(cell):
        raise BadLine(
            "type",
            f"{name!r}: {describe(cell)} has a comma; write numbers with a decimal point and "
            "without separators of thousands, like 1234.5",
            entity,
            name,
        )
    found = _short_integer(cell)
    if isinstance(found, int) or (kind in INTEGER_KINDS and _INTEGER_CELL.fullmatch(cell)):
        return found
    return float(cell) if _NUMBER_CELL.fullmatch(cell) else cell


def _short_integer(cell: str) -> int | str:
    """The integer of a cell; other cells, and integers of very many digits, stay as they are."""
    return int(cell) if len(cell) <= 100 and _INTEGER_CELL.fullmatch(cell) else cell


def _list(entity: EntityType, name: str, cell: str, kind: ValueType) -> Any:
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        error = refusal(cell, kind, 'a JSON list such as ["a", "b"] or [1, 2]')
        raise BadLine("type", f"{name!r}: {error.message}", entity, name) from None


_EPOCHS = {
    ScalarKind.DATE: (FIRST_DAY, LAST_DAY),
    ScalarKind.DATETIME: (FIRST_MILLI, LAST_MILLI),
}

"""NDJSON: a block of lines -> parsed rows.

Lines are grouped by their first bytes, which name their type. Arrow's JSON reader reads each group
with the schema of its type. Lines that Arrow may read wrongly are read by `parsed_rows.read_line`.
The result is the same as reading every line that way; only the time differs. If the caller names
one type for all rows, lines that do not name theirs are one more group (`FlatRows`).

The fast way cannot misread, because its lines begin with `{` and end with `}`. If a newline were
inside an object or list, a `{` would follow a `}` there, which is not JSON; inside a string Arrow
refuses a newline. So objects end where lines end, and if there are as many rows as lines, each line
is one row. Duplicate keys, unknown keys and values of another type make Arrow fail, and the lines
are then read the slow way.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import default_values
from omnigraph.catalog.model import ID, SOURCE, TARGET, Catalog, EdgeType, EntityType
from omnigraph.load.json_columns import either, one_array, parse_type, read_json, typed_column
from omnigraph.load.parsed_rows import (
    BadLine,
    BlobBases,
    FlatRows,
    ParsedBlock,
    ParsedRows,
    SlowRows,
    raw_schema,
    read_line,
    read_row,
    reported_columns,
)
from omnigraph.writes.row_compare import Mask

_BEGINNING = re.compile(rb'(\{"(?:type|edge)": ?"([A-Za-z_][A-Za-z0-9_]*)")[,}]')
_UNKNOWN_BEGINNINGS = 64
_PIECES = 16
_SMALLEST_PIECE = 256
_ENDINGS = (b"}\n", b"}\r\n")

_END_KEYS = {SOURCE: "from", TARGET: "to"}

Indices = npt.NDArray[np.int64]


class JsonLines:
    """Parses blocks of lines for one catalog. Holds no state between blocks; pickles."""

    def __init__(
        self,
        catalog: Catalog,
        blobs: BlobBases,
        flat: FlatRows | None = None,
        *,
        partial: bool = False,
    ) -> None:
        self._catalog = catalog
        self._blobs = blobs
        self._flat = flat
        self._partial = partial
        """The rows are patches."""

    def parse(self, data: bytes, first_line: int, file: str) -> ParsedBlock:
        """`data` holds whole lines, the last one with or without its newline."""
        block = ParsedBlock(file, len(data))
        lines = _split(data)
        slow: list[Indices] = []
        if self._flat is None or self._flat.may_name_types:
            for entity, members in self._groups(lines, slow):
                self._parse_group(_LineForm(entity), lines, members, first_line, block, slow)
        else:
            slow.append(np.arange(len(lines)))
        if self._flat is not None:
            slow = self._parse_flat(self._flat, lines, np.concatenate(slow), first_line, block)
        if slow:
            self._read_slowly(lines, np.sort(np.concatenate(slow)), first_line, block)
        block.as_read = lambda line: _as_read(lines[line - first_line].as_py())
        return block

    def parse_slowly(self, data: bytes, first_line: int, file: str) -> ParsedBlock:
        """The definition of what `parse` does."""
        block = ParsedBlock(file, len(data))
        lines = _split(data)
        self._read_slowly(lines, np.arange(len(lines)), first_line, block)
        return block

    def _groups(self, lines: pa.Array, slow: list[Indices]) -> Iterator[tuple[EntityType, Indices]]:
        """Lines by type, which their first bytes tell; lines without a known type go to `slow`."""
        rest = np.arange(len(lines))
        unknown: list[int] = []
        while len(rest) and len(unknown) < _UNKNOWN_BEGINNINGS:
            found = _BEGINNING.match(lines[int(rest[0])].as_py())
            entity = self._named(found[2].decode()) if found else None
            if found is None or entity is None:
                unknown.append(int(rest[0]))
                rest = rest[1:]
                continue
            among = lines if len(rest) == len(lines) else lines.take(pa.array(rest))
            same = pc.starts_with(among, pattern=found[1] + b",")
            if b"}" in found[0]:
                same = pc.or_(same, pc.starts_with(among, pattern=found[1] + b"}"))
            mask = same.to_numpy(zero_copy_only=False)
            yield entity, rest[mask]
            rest = rest[~mask]
        slow.append(np.array(unknown, dtype=np.int64))
        slow.append(rest)

    def _named(self, name: str) -> EntityType | None:
        return self._catalog.node_types.get(name) or self._catalog.edge_types.get(name)

    def _parse_flat(
        self,
        flat: FlatRows,
        lines: pa.Array,
        members: Indices,
        first_line: int,
        block: ParsedBlock,
    ) -> list[Indices]:
        """Parse the members that are flat rows; returns those that must be read the slow way."""
        members = np.sort(members)
        among = lines if len(members) == len(lines) else lines.take(pa.array(members))
        shaped = pc.starts_with(among, pattern=b"{").to_numpy(zero_copy_only=False)
        slow = [members[~shaped]]
        form = _LineForm(flat.entity, flat)
        self._parse_group(form, lines, members[shaped], first_line, block, slow)
        return slow

    def _parse_group(
        self,
        form: _LineForm,
        lines: pa.Array,
        members: Indices,
        first_line: int,
        block: ParsedBlock,
        slow: list[Indices],
    ) -> None:
        mine = lines if len(members) == len(lines) else lines.take(pa.array(members))
        whole = pc.or_(*(pc.ends_with(mine, pattern=ending) for ending in _ENDINGS))
        mask = whole.to_numpy(zero_copy_only=False)
        if not mask.all():
            slow.append(members[~mask])
            members, mine = members[mask], mine.filter(whole)
        for part in _read_in_pieces(form.schema(), mine):
            numbers = members[part.start : part.start + part.length]
            if part.table is None:
                slow.append(numbers)
                continue
            table, bad = _typed(form, part.table)
            spelled = mine.slice(part.start, part.length)
            reported = reported_columns(form.entity, partial=self._partial)
            found = _AbsentValues(form, table, spelled, reported)
            table, absent = found.filled(table), found.spelled() if reported else None
            bad = either(bad, found.unsure)
            if bad is not None:
                slow.append(numbers[bad])
                numbers, table = numbers[~bad], table.filter(pa.array(~bad))
                absent = None if absent is None else absent.filter(pa.array(~bad))
            if len(numbers):
                block.rows.append(ParsedRows(form.entity, table, numbers + first_line, absent))

    def _read_slowly(
        self, lines: pa.Array, members: Indices, first_line: int, block: ParsedBlock
    ) -> None:
        found = SlowRows(partial=self._partial)
        for member in members.tolist():
            text: bytes = lines[member].as_py().strip()
            if not text or text.startswith(b"//"):
                continue
            try:
                row = read_line(text, self._catalog, self._blobs, self._flat)
                found.add(row, member + first_line)
            except BadLine as bad:
                found.refuse(bad, member + first_line)
        found.give_to(block)

    def parse_objects(self, rows: Sequence[Any], first_row: int, file: str) -> ParsedBlock:
        """Rows that are Python objects. NaN, as pandas writes a missing value, is NULL."""
        block = ParsedBlock(file)
        found = SlowRows(partial=self._partial)
        for number, body in enumerate(rows, first_row):
            try:
                given = _without_missing(body)
                found.add(read_row(given, self._catalog, self._blobs, self._flat), number)
            except BadLine as bad:
                found.refuse(bad, number)
        found.give_to(block)
        block.as_read = lambda row: rows[row - first_row]
        return block


def _without_missing(body: Any) -> Any:
    if not isinstance(body, Mapping):
        return body
    return {key: None if _is_missing(value) else value for key, value in body.items()}


def _is_missing(value: Any) -> bool:
    """NaN, and the `NaT` and `NA` of pandas, which is not imported."""
    if isinstance(value, float):
        return math.isnan(value)
    return type(value).__name__ in ("NaTType", "NAType")


@dataclass(frozen=True, slots=True)
class _LineGroup:
    """Consecutive lines of one type; `table` is None when Arrow could not read them."""

    start: int
    length: int
    table: pa.Table | None


def _split(data: bytes) -> pa.Array:
    """The lines with their newlines, as slices of `data`; the last line may lack its newline."""
    if not data.endswith(b"\n"):
        data += b"\n"
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n")) + 1
    offsets = np.concatenate([[0], ends]).astype(np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(ends), buffers)


def _as_read(line: bytes) -> Any:
    """The JSON of a line; its text if it is not JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return line.decode(errors="replace").rstrip("\r\n")


def _read_in_pieces(schema: pa.Schema, lines: pa.Array) -> Iterator[_LineGroup]:
    """All lines at once if possible, else in groups, so that a bad line slows only its group."""
    if len(lines) == 0:
        return
    table = _read(schema, lines)
    if table is not None or len(lines) <= _SMALLEST_PIECE:
        yield _LineGroup(0, len(lines), table)
        return
    size = max(_SMALLEST_PIECE, -(-len(lines) // _PIECES))
    for start in range(0, len(lines), size):
        piece = lines.slice(start, size)
        yield _LineGroup(start, len(piece), _read(schema, piece))


def _read(schema: pa.Schema, lines: pa.Array) -> pa.Table | None:
    offsets = np.frombuffer(lines.buffers()[1], dtype=np.int64)
    first, last = offsets[lines.offset], offsets[lines.offset + len(lines)]
    data = lines.buffers()[2].slice(first, last - first)
    table = read_json(data, schema)
    return table if table is not None and table.num_rows == len(lines) else None


@dataclass(frozen=True, slots=True)
class _LineForm:
    """Where the lines of one type hold their properties: in `data`, or flat at the top."""

    entity: EntityType
    flat: FlatRows | None = None

    def key_of(self, name: str) -> str:
        return name if self.flat is None else self.flat.key_of(name)

    def schema(self) -> pa.Schema:
        """What to ask Arrow's JSON reader for."""
        properties = [pa.field(self.key_of(ID), pa.string())]
        properties += [
            pa.field(self.key_of(p.name), parse_type(p.type)) for p in self.entity.properties
        ]
        ends = []
        if isinstance(self.entity, EdgeType):
            ends = [pa.field(self.end_key(name), pa.string()) for name in (SOURCE, TARGET)]
        if self.flat is not None:
            return pa.schema([*ends, *properties])
        data = pa.field("data", pa.struct(properties))
        kind = "edge" if isinstance(self.entity, EdgeType) else "type"
        return pa.schema([pa.field(kind, pa.string()), pa.field(ID, pa.string()), *ends, data])

    def columns(self, table: pa.Table) -> dict[str, pa.Array]:
        """The columns of a table with this schema, by the names of properties."""
        if self.flat is None:
            data = one_array(table.column("data"))
            found = dict(zip((f.name for f in data.type), data.flatten(), strict=True))
            found[ID] = pc.coalesce(one_array(table.column(ID)), found[ID])
        else:
            names = (ID, *(p.name for p in self.entity.properties))
            found = {name: one_array(table.column(self.key_of(name))) for name in names}
        if isinstance(self.entity, EdgeType):
            for name in (SOURCE, TARGET):
                found[name] = one_array(table.column(self.end_key(name)))
        return found

    def two_ids(self, table: pa.Table) -> Mask | None:
        """The rows with an id beside `data` and one inside, which may differ."""
        if self.flat is not None or table.column(ID).null_count == table.num_rows:
            return None
        inside = pc.struct_field(one_array(table.column("data")), ID)
        both = pc.and_(one_array(table.column(ID)).is_valid(), inside.is_valid())
        mask: Mask = both.to_numpy(zero_copy_only=False)
        return mask if mask.any() else None

    def end_key(self, name: str) -> str:
        return _END_KEYS[name] if self.flat is None else self.flat.key_of(name)


def _typed(form: _LineForm, table: pa.Table) -> tuple[pa.Table, Mask | None]:
    """(the typed rows, a mask of the rows that must be read the slow way)."""
    entity = form.entity
    raw = form.columns(table)
    columns = {name: raw[name] for name in (ID, SOURCE, TARGET) if name in raw}
    bad = form.two_ids(table)
    for declared in entity.properties:
        columns[declared.name], strange = typed_column(declared.type, raw[declared.name])
        bad = either(bad, strange)
    for column in columns.values():
        bad = either(bad, _broken_text(column))
    schema = raw_schema(entity)
    return pa.table([columns[name] for name in schema.names], schema=schema), bad


class _AbsentValues:
    """Which rows leave columns out.

    Arrow's JSON reader gives NULL both for `null` and for an absent property. Only an absent one
    gets its default, and a patch does not change it. A property is absent for certain if its line
    holds neither the name nor a backslash, because an escape could spell the name differently.
    Other lines with a NULL are read the slow way. Columns without a default are looked at if they
    are `reported`.
    """

    def __init__(
        self, form: _LineForm, table: pa.Table, lines: pa.Array, reported: Sequence[str]
    ) -> None:
        self._reported = reported
        self._defaults = default_values(form.entity)
        self._absent: dict[str, Mask] = {}
        self._rows = table.num_rows
        self.unsure: Mask | None = None
        """Rows that must be read the slow way."""
        names = dict.fromkeys((*reported, *self._defaults))
        escaped: pa.Array | None = None
        for name in names:
            column = table.column(name)
            if column.null_count == 0:
                continue
            if escaped is None:
                escaped = pc.match_substring(lines, pattern="\\")
            key = form.end_key(name) if name in _END_KEYS else form.key_of(name)
            named = pc.or_(escaped, pc.match_substring(lines, pattern=f'"{key}"'))
            self._absent[name] = column.is_null().to_numpy()
            doubtful = pc.and_(column.is_null(), named).to_numpy()
            self.unsure = either(self.unsure, doubtful if doubtful.any() else None)

    def filled(self, table: pa.Table) -> pa.Table:
        """The rows with their defaults."""
        for name in (name for name in self._absent if name in self._defaults):
            place = table.schema.get_field_index(name)
            field = table.schema.field(place)
            value = pa.scalar(self._defaults[name], field.type)
            table = table.set_column(place, field, pc.fill_null(table.column(name), value))
        return table

    def spelled(self) -> pa.Array:
        """What `parsed_rows.spell_absent` gives for each row."""
        if not self._absent:
            return pa.repeat("", self._rows)
        masks = np.array(list(self._absent.values()), dtype=bool)
        combined, row_sets = np.unique(masks, axis=1, return_inverse=True)
        absent = [set(compress(self._absent, column)) for column in combined.T]
        texts = [",".join(name for name in self._reported if name in names) for names in absent]
        return pa.array(texts, pa.string()).take(pa.array(row_sets.reshape(-1)))


def _broken_text(column: pa.Array) -> Mask | None:
    """All rows of a column that holds bytes which are not UTF-8; Arrow copies them unchecked."""
    if not _holds_text(column.type):
        return None
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return np.ones(len(column), dtype=bool)
    return None


def _holds_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or (pa.types.is_list(kind) and _holds_text(kind.value_type))
    )

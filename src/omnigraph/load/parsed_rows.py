"""The first stage of a load: what every parser yields, and the slow reader that defines its result.

`json_lines`, `csv_files` and `arrow_columns` read whole blocks with Arrow, because that is fast.
Values that Arrow may read differently are read by the functions here, in plain Python and one line
or cell at a time. Fast and slow reading give equal rows; property tests compare them.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote, urlparse

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import default_column, default_values, table_schema
from omnigraph.catalog.model import (
    ID,
    SOURCE,
    TARGET,
    Catalog,
    EdgeType,
    EntityType,
    generated_defaults,
    spelled,
)
from omnigraph.errors import ExternalBlobDenied, InvalidArgument, NotFound
from omnigraph.load.json_columns import one_array
from omnigraph.values.blob_values import judged_blob
from omnigraph.values.coercion import coerce, describe
from omnigraph.values.external_blobs import NONE_ALLOWED, ExternalBases
from omnigraph.values.known_names import did_you_mean, nearest_name
from omnigraph.values.scalars import (
    INTEGER_KINDS,
    BlobType,
    EnumType,
    ScalarKind,
    ScalarType,
    ValueType,
)
from omnigraph.writes.row_compare import Mask

Lines = npt.NDArray[np.int64]
Row = dict[str, Any]

_NODE_KEYS = frozenset({"type", "id", "data"})
_EDGE_KEYS = frozenset({"edge", "id", "from", "to", "data"})
_ENDS = {"from": SOURCE, "to": TARGET}
_TEXT = ScalarType(ScalarKind.STRING)
_DATE = ScalarType(ScalarKind.DATE)
_LARGEST_EXACT = 2.0**53
"""Above this number a float may stand for several integers."""


@dataclass(frozen=True, slots=True)
class ParseProblem:
    """Why a line cannot become a row."""

    rule: str
    line: int
    message: str
    entity: EntityType | None = None
    property: str | None = None


@dataclass(frozen=True, slots=True)
class ParsedRows:
    """Rows of one type: every column of `raw_schema`, and the line of each row."""

    entity: EntityType
    table: pa.Table
    lines: Lines
    absent: pa.Array | None = None
    """The `reported_columns` that each row leaves out, as `spell_absent` spells them."""


def _not_kept(line: int) -> Any:
    return None


@dataclass(slots=True)
class ParsedBlock:
    """One block of one file. Rows of one type may come in several parts, in any order.

    Problems are in the order of their lines.
    """

    file: str
    bytes_read: int = 0
    rows: list[ParsedRows] = field(default_factory=list)
    problems: list[ParseProblem] = field(default_factory=list)
    broken: list[ParsedRows] = field(default_factory=list)
    """Rows with a problem in some value, which is NULL here. They are checked, but not loaded."""
    as_read: Callable[[int], Any] = field(default=_not_kept, compare=False)
    """Line -> its row as the input has it."""


Blocks = Iterator[ParsedBlock]


def raw_schema(entity: EntityType) -> pa.Schema:
    """The table's columns, all nullable, because rules report missing values and Arrow must not.

    A null `id` means that the input gave none.
    """
    return pa.schema([field.with_nullable(True) for field in table_schema(entity)])


def reported_columns(entity: EntityType, *, partial: bool) -> tuple[str, ...]:
    """The columns of which rows say whether they leave them out.

    Of patches (`partial`) these are all columns apart from `id`. Of other rows they are the
    properties whose default the load makes.
    """
    if not partial:
        return tuple(generated_defaults(entity))
    ends = tuple(_ENDS.values()) if isinstance(entity, EdgeType) else ()
    return (*ends, *(p.name for p in entity.properties))


def spell_absent(reported: Iterable[str], given: Collection[str]) -> str:
    """The reported columns that are not among the given ones."""
    return ",".join(name for name in reported if name not in given)


def with_absent(block: ParsedBlock, given: Collection[str], *, partial: bool) -> None:
    """Let all rows of a block, which have the columns `given`, say what they leave out."""
    for parts in (block.rows, block.broken):
        parts[:] = [
            replace(rows, absent=pa.repeat(spell_absent(reported, given), len(rows.lines)))
            if (reported := reported_columns(rows.entity, partial=partial))
            else rows
            for rows in parts
        ]


def widen(block: ParsedBlock, catalog: Catalog, *, partial: bool) -> None:
    """Give rows that were read by a part of the catalog all columns of their types.

    The rows leave the other columns out. They get the default or NULL, and patches do not change
    them.
    """
    block.rows = [_widened(rows, catalog, partial=partial) for rows in block.rows]
    block.broken = [_widened(rows, catalog, partial=partial) for rows in block.broken]


def _widened(rows: ParsedRows, catalog: Catalog, *, partial: bool) -> ParsedRows:
    entity = catalog.entity_type(rows.entity.table_key)
    schema, given = raw_schema(entity), rows.table
    columns = []
    for wanted in schema:
        if wanted.name in given.column_names:
            columns.append(given.column(wanted.name))
        elif partial:
            columns.append(pa.nulls(given.num_rows, wanted.type))
        else:
            columns.append(default_column(entity, wanted, given.num_rows))
    reported = reported_columns(entity, partial=partial)
    added = [name for name in reported if name not in given.column_names]
    absent = rows.absent
    if added:
        more = ",".join(added)
        before = pa.repeat("", given.num_rows) if absent is None else absent
        joined = pc.binary_join_element_wise(before, more, ",")
        absent = pc.if_else(pc.equal(before, ""), more, joined)
    return ParsedRows(entity, pa.table(columns, schema=schema), rows.lines, absent)


class AbsentColumns:
    """What each of some rows leaves out."""

    def __init__(self, spelled: pa.Array | pa.ChunkedArray) -> None:
        texts = one_array(spelled) if isinstance(spelled, pa.ChunkedArray) else spelled
        encoded = texts.dictionary_encode()
        self._sets = [frozenset(text.split(",")) for text in encoded.dictionary.to_pylist()]
        self._numbers = encoded.indices.to_numpy(zero_copy_only=False)

    @property
    def names(self) -> frozenset[str]:
        """Columns that some row leaves out."""
        return frozenset().union(*self._sets) - {""}

    def of(self, name: str) -> Mask:
        """Rows that leave this column out."""
        chosen: Mask = np.array([name in each for each in self._sets], dtype=bool)
        return np.asarray(chosen[self._numbers], dtype=bool)


class BadLine(Exception):
    """Why a line is not an entity."""

    def __init__(
        self,
        rule: str,
        message: str,
        entity: EntityType | None = None,
        property_name: str | None = None,
    ) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.entity = entity
        self.property_name = property_name

    def at(self, line: int) -> ParseProblem:
        return ParseProblem(self.rule, line, self.message, self.entity, self.property_name)


class BlobBases:
    """What blob values of a load may be besides bytes: external blobs, and files to copy.

    Files are copied from local folders, none unless the settings name some. An address that is
    allowed as an external blob is not copied.
    """

    def __init__(self, bases: tuple[str, ...] = (), external: ExternalBases = NONE_ALLOWED) -> None:
        self._bases = [_base(base) for base in bases]
        self._external = external

    def read(self, value: object) -> bytes:
        """The stored bytes of a value; raises `InvalidArgument`."""
        try:
            return judged_blob(value, self._external)
        except ExternalBlobDenied:
            path = self._allowed(value) if isinstance(value, str) else None
            if path is None:
                raise
        try:
            return judged_blob(path.read_bytes(), self._external)
        except OSError as error:
            raise InvalidArgument(f"{describe(value)} cannot be read: {error.strerror}") from error

    def _allowed(self, text: str) -> Path | None:
        """The file that `text` names, if it is below an allowed folder after links are followed."""
        try:
            path = _local_path(text).resolve()
        except (ValueError, OSError, RuntimeError):
            return None
        return path if any(path.is_relative_to(base) for base in self._bases) else None


@dataclass(slots=True)
class TypedRow:
    """Values by property name. A value with a problem is absent."""

    entity: EntityType
    values: Row
    problems: list[BadLine] = field(default_factory=list)
    given: Collection[str] = ()
    """The properties that the row has, also those that are null."""

    def absent(self, reported: Iterable[str]) -> str:
        """The reported columns that the row leaves out."""
        ends = (n for n in _ENDS.values() if n in self.values)
        return spell_absent(reported, {*self.given, *ends})

    def read(self, name: str, value: Any, kind: ValueType, blobs: BlobBases) -> None:
        """Add a value, or say why it does not fit."""
        try:
            self.values[name] = None if value is None else value_reader(kind, blobs)(value)
        except InvalidArgument as error:
            self.refuse("type", f"{spelled(name)!r}: {error.message}", name)

    def refuse(self, rule: str, message: str, name: str) -> None:
        self.values.pop(name, None)
        self.problems.append(BadLine(rule, message, self.entity, spelled(name)))


@dataclass(frozen=True, slots=True)
class _RowGroup:
    """Rows of one type, their lines and what they leave out."""

    entity: EntityType
    rows: list[Row] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)

    def parsed(self) -> ParsedRows:
        table = rows_to_table(self.entity, self.rows)
        absent = pa.array(self.absent, pa.string()) if self.absent else None
        return ParsedRows(self.entity, table, np.array(self.lines, dtype=np.int64), absent)


class SlowRows:
    """Gathers rows that are read one by one, and gives them to their block.

    `partial`: the rows are patches.
    """

    def __init__(self, *, partial: bool = False) -> None:
        self._partial = partial
        self._whole: dict[str, _RowGroup] = {}
        self._broken: dict[str, _RowGroup] = {}
        self._problems: list[ParseProblem] = []

    def add(self, row: TypedRow, line: int) -> None:
        kind = self._broken if row.problems else self._whole
        group = kind.setdefault(row.entity.name, _RowGroup(row.entity))
        group.rows.append(row.values)
        group.lines.append(line)
        reported = reported_columns(row.entity, partial=self._partial)
        if reported:
            group.absent.append(row.absent(reported))
        self._problems += [problem.at(line) for problem in row.problems]

    def refuse(self, problem: BadLine, line: int) -> None:
        self._problems.append(problem.at(line))

    def give_to(self, block: ParsedBlock) -> None:
        block.problems += self._problems
        block.rows += [group.parsed() for group in self._whole.values()]
        block.broken += [group.parsed() for group in self._broken.values()]


@dataclass(frozen=True, slots=True)
class FlatRows:
    """JSON rows that do not name their type: all have one type, and their keys are its properties.

    A row such as `{"type": "City", "data": {…}}` among them still has the type that it names.
    """

    entity: EntityType
    columns: Mapping[str, str]
    """Key in a row -> property."""

    def property_of(self, key: str) -> str:
        name = self.columns.get(key, key)
        return _ENDS.get(name, name) if isinstance(self.entity, EdgeType) else name

    def key_of(self, name: str) -> str:
        """The key of a property; rows may also have others, which are read one by one."""
        mapped = (key for key in self.columns if self.property_of(key) == name)
        ends = {end: key for key, end in _ENDS.items()}
        return next(mapped, ends.get(name, name))

    @property
    def may_name_types(self) -> bool:
        """False if `type` or `edge` is a property, so that rows with it may be flat."""
        return not {"type", "edge"} & self._known()

    def names_its_type(self, body: Mapping[str, Any]) -> bool:
        named = [key for key in ("type", "edge") if isinstance(body.get(key), str)]
        if not named:
            return False
        return isinstance(body.get("data"), dict) or named[0] not in self._known()

    def _known(self) -> set[str]:
        return {*(p.name for p in self.entity.properties), *self.columns}


def read_line(
    text: bytes, catalog: Catalog, blobs: BlobBases, flat: FlatRows | None = None
) -> TypedRow:
    """One NDJSON line as a row; raises `BadLine` if not even its type can be read."""
    return read_row(_decode(text), catalog, blobs, flat)


def read_row(
    body: Any, catalog: Catalog, blobs: BlobBases, flat: FlatRows | None = None
) -> TypedRow:
    """One JSON object as a row; raises `BadLine` if not even its type can be read."""
    if not isinstance(body, Mapping):
        raise BadLine("syntax", f"a line is an object, not {describe(body)}")
    if flat is not None and not flat.names_its_type(body):
        return _flat_row(body, flat, blobs)
    entity = _entity(body, catalog)
    allowed = _EDGE_KEYS if isinstance(entity, EdgeType) else _NODE_KEYS
    data = body.get("data")
    if data is not None and not isinstance(data, Mapping):
        raise BadLine("syntax", f"'data' is an object, not {describe(data)}", entity, "data")
    beside = {} if body.get("id") is None else {ID: body["id"]}
    row = typed_row(entity, {**(data or {}), **beside}, blobs)
    if beside and data and data.get(ID, beside[ID]) != beside[ID]:
        row.refuse("syntax", "'id' and 'id' in 'data' differ; one of them is enough", ID)
    for unknown in (key for key in body if key not in allowed):
        row.refuse("syntax", f"{unknown!r} is none of {', '.join(sorted(allowed))}", unknown)
    if isinstance(entity, EdgeType):
        for key in (key for key in _ENDS if key in body):
            row.read(_ENDS[key], body[key], _TEXT, blobs)
    return row


def _flat_row(body: Mapping[str, Any], flat: FlatRows, blobs: BlobBases) -> TypedRow:
    entity = flat.entity
    known = raw_schema(entity).names
    given: dict[str, Any] = {}
    problems: list[BadLine] = []
    for key, value in body.items():
        name = flat.property_of(str(key))
        if name not in known:
            problems.append(BadLine("property", unknown_column(entity, str(key)), entity, str(key)))
        elif name in given:
            problems.append(BadLine("syntax", f"{spelled(name)!r} occurs twice", entity, name))
        else:
            given[name] = value
    ends = {name: given.pop(name) for name in _ENDS.values() if name in given}
    row = typed_row(entity, given, blobs)
    for name, value in ends.items():
        row.read(name, value, _TEXT, blobs)
    row.problems += problems
    return row


def unknown_column(entity: EntityType, name: str) -> str:
    """The message for a column that is no property, with the name that was probably meant."""
    known = raw_schema(entity).names
    near = nearest_name(name, known)
    listed = f"did you mean {near!r}?" if near else f"it has: {', '.join(known)}"
    shown, target = name[:60], near or "property"
    return (
        f"{entity.name} has no property {shown!r}; {listed} Map the column with "
        f'--map "{shown}={target}" (map={{{shown!r}: {target!r}}})'
    )


def typed_row(entity: EntityType, given: Mapping[str, Any], blobs: BlobBases) -> TypedRow:
    """A default replaces an absent property, not a null one."""
    kinds: dict[str, ValueType] = {p.name: p.type for p in entity.properties}
    kinds[ID] = _TEXT
    row = TypedRow(entity, default_values(entity), given=given.keys())
    for name, value in given.items():
        kind = kinds.get(name)
        if kind is None:
            hint = did_you_mean(name, (p.name for p in entity.properties)) or "it has none"
            row.refuse("property", f"no property {name!r}; {hint}"[:300], name)
        else:
            row.read(name, value, kind, blobs)
    return row


def rows_to_table(entity: EntityType, rows: list[Row]) -> pa.Table:
    """Typed rows as the raw table of their type."""
    schema = raw_schema(entity)
    columns = [pa.array([row.get(f.name) for row in rows], f.type) for f in schema]
    return pa.table(columns, schema=schema)


def value_reader(kind: ValueType, blobs: BlobBases) -> Callable[[Any], Any]:
    """A function from a JSON value to a value of this type; it raises `InvalidArgument`."""
    if isinstance(kind, BlobType):
        return lambda value: blobs.read(value if isinstance(value, bytes) else coerce(value, _TEXT))
    if isinstance(kind, EnumType):
        # `check_rows` judges whether the value is one of the enum, as it judges the other rules.
        return lambda value: _storable_text(coerce(value, _TEXT))
    if kind == _TEXT:
        return lambda value: _storable_text(coerce(value, kind))
    if isinstance(kind, ScalarType) and kind.kind in INTEGER_KINDS:
        return lambda value: coerce(_whole_number(value), kind)
    if kind == _DATE:
        return lambda value: coerce(_day_of_midnight(value), kind)
    return lambda value: _storable(coerce(value, kind))


def _whole_number(value: Any) -> Any:
    """1.0 as 1, because pandas holds integers as floats where a value is missing."""
    if not isinstance(value, float) or not value.is_integer():
        return value
    if abs(value) > _LARGEST_EXACT:
        raise InvalidArgument(
            f"{describe(value)} is a float, and floats beyond 2^53 do not hold every integer; "
            "give it as an integer"
        )
    return int(value)


def _day_of_midnight(value: Any) -> Any:
    """The day of a moment without a zone and a time, because pandas holds dates that way."""
    moment = value.item() if isinstance(value, np.datetime64) else value
    if isinstance(moment, dt.datetime) and moment.tzinfo is None and moment.time() == dt.time():
        return moment.date()
    return value


def _storable(value: Any) -> Any:
    if isinstance(value, list) and value and isinstance(value[0], str):
        return [_storable_text(item) for item in value]
    return value


def _storable_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument("half of a surrogate pair cannot be stored as UTF-8") from error
    return text


def _decode(text: bytes) -> Any:
    try:
        return json.loads(
            text.decode(), object_pairs_hook=_no_duplicates, parse_constant=_refuse_constant
        )
    except UnicodeDecodeError as error:
        raise BadLine("syntax", f"not UTF-8: byte {error.start + 1} of the line") from error
    except json.JSONDecodeError as error:
        raise BadLine("syntax", f"not JSON: {error.msg} at column {error.pos + 1}") from error
    except RecursionError:
        raise BadLine("syntax", "not JSON: nested too deeply") from None
    except ValueError as error:
        # An integer of thousands of digits, or a value that one of the two hooks refuses.
        raise BadLine("syntax", f"not JSON: {error}"[:200]) from error


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} occurs twice in one object")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _entity(body: Mapping[str, Any], catalog: Catalog) -> EntityType:
    kinds = [key for key in ("type", "edge") if key in body]
    if len(kinds) != 1:
        raise BadLine(
            "syntax",
            "an entity has either 'type' (a node) or 'edge'; if all rows have one type, give "
            "--type (type=)",
        )
    name = body[kinds[0]]
    if not isinstance(name, str):
        raise BadLine("syntax", f"{kinds[0]!r} is a string, not {describe(name)}")
    try:
        entity = catalog.resolve(name)
    except NotFound as error:
        raise BadLine("unknown_type", error.message) from error
    if isinstance(entity, EdgeType) != (kinds[0] == "edge"):
        right = "edge" if isinstance(entity, EdgeType) else "type"
        raise BadLine("unknown_type", f"{name!r} is written as {right!r}, not as {kinds[0]!r}")
    return entity


def _base(text: str) -> Path:
    try:
        return _local_path(text).resolve()
    except (ValueError, OSError, RuntimeError) as error:
        raise InvalidArgument(
            f"blob_bases: {text!r} is not a folder of this machine. Blobs are copied from local "
            "folders only; write other blobs into the data as base64:…",
            setting="blob_bases",
        ) from error


def _local_path(text: str) -> Path:
    parsed = urlparse(text)
    if parsed.scheme == "file":
        return Path(unquote(parsed.path))
    if "://" in text:
        raise ValueError("not a local file")
    return Path(text)

"""Rows as a caller gives them -> tables with exactly the columns and types of the catalog.

Python values become Arrow columns by the rules of `values.coercion`. Arrow itself is fast but too
lenient: it cuts fractions off, takes bytes for texts and moments for days. So Arrow converts the
values whose Python class leaves no doubt, and all others are coerced one by one.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import default_column, default_values, table_schema
from omnigraph.catalog.generated import generated_column
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
from omnigraph.errors import InvalidArgument, ValidationFailed
from omnigraph.values.arrow_types import cut_to_millis, is_blob
from omnigraph.values.blob_columns import judged_column
from omnigraph.values.blob_values import judged_blob
from omnigraph.values.coercion import coerce
from omnigraph.values.external_blobs import NONE_ALLOWED, ExternalBases
from omnigraph.values.known_names import did_you_mean
from omnigraph.values.scalars import (
    FLOAT_KINDS,
    INTEGER_KINDS,
    BlobType,
    EnumType,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)
from omnigraph.writes.changeset import ChangeSet, EditRows, Located
from omnigraph.writes.derived import derived_ids

Rows: TypeAlias = Any
"""An Arrow table or a sequence of dicts."""
FreshId = Callable[[], str]

_EDGE_SPELLINGS = {"from": SOURCE, "to": TARGET}
_TEXT = ScalarType(ScalarKind.STRING)
_NOTHING = type(None)
_CLASSES: dict[ScalarKind, frozenset[type]] = {
    ScalarKind.STRING: frozenset({str}),
    ScalarKind.BOOL: frozenset({bool}),
    ScalarKind.DATE: frozenset({dt.date}),
    ScalarKind.DATETIME: frozenset({dt.datetime}),
    **dict.fromkeys(INTEGER_KINDS, frozenset({int})),
    **dict.fromkeys(FLOAT_KINDS, frozenset({float})),
}


@dataclass(frozen=True, slots=True)
class Edit:
    """The edits of one type: rows as Arrow tables or dicts, and ids to delete."""

    insert: Rows | None = None
    upsert: Rows | None = None
    delete: Sequence[str] = ()


def shape_edits(
    catalog: Catalog,
    edits: Mapping[str, Edit],
    fresh_id: FreshId,
    now_millis: int,
    external: ExternalBases = NONE_ALLOWED,
) -> ChangeSet:
    """Typed effects for every edit. An id comes from the key, or a new ULID is made.

    `external` says which external blobs the rows may name.
    """
    effects = []
    for type_name, edit in edits.items():
        entity = catalog.resolve(type_name)
        inserts = shape_rows(entity, edit.insert, fresh_id, now_millis, external)
        upserts = shape_rows(entity, edit.upsert, fresh_id, now_millis, external)
        deletes = _delete_ids(entity, edit.delete)
        located = Located(absent=_made_ids(entity, edit.upsert, upserts))
        marks = {} if upserts is None else _marks(entity, edit.upsert)
        if inserts is not None or upserts is not None or deletes is not None:
            effects.append(EditRows(entity.table_key, inserts, upserts, deletes, located, marks))
    return ChangeSet(tuple(effects))


def _marks(entity: EntityType, rows: Rows) -> dict[str, pa.Array]:
    """Property with a generated default -> for every row, whether the row leaves it out."""
    names = generated_defaults(entity)
    if isinstance(rows, pa.Table):
        return {n: pa.repeat(pa.scalar(n not in rows.column_names), len(rows)) for n in names}
    return {name: pa.array([name not in row for row in rows], pa.bool_()) for name in names}


def _made_ids(entity: EntityType, given: Rows | None, shaped: pa.Table | None) -> pa.Array | None:
    """The ids that `shape_rows` made for these rows; None if it made none."""
    if shaped is None or given is None or entity.key:
        return None
    names = given.column_names if isinstance(given, pa.Table) else {n for row in given for n in row}
    return None if ID in names else shaped.column(ID).combine_chunks()


def shape_rows(
    entity: EntityType,
    rows: Rows | None,
    fresh_id: FreshId,
    now_millis: int,
    external: ExternalBases = NONE_ALLOWED,
) -> pa.Table | None:
    """A table with exactly the columns, order and types of `entity`; None when there is no row.

    `now_millis` is the value of `now()` in defaults.
    """
    if rows is None or len(rows) == 0:
        return None
    schema = table_schema(entity)
    table = rows if isinstance(rows, pa.Table) else _from_dicts(entity, schema, rows, external)
    if isinstance(entity, EdgeType):
        table = table.rename_columns([_EDGE_SPELLINGS.get(n, n) for n in table.column_names])
    _refuse_unknown(entity, schema, table)
    count = len(rows)  # a table of dicts without keys has no columns, and then no rows
    columns = {
        field.name: _column(entity, table, field, count, external)
        for field in schema
        if field.name != ID
    }
    for name, mark in _marks(entity, rows).items():
        columns[name] = pa.chunked_array(
            [_generated(entity, schema.field(name), columns[name], mark, now_millis)]
        )
    columns[ID] = _ids(entity, table, columns, fresh_id, count)
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _from_dicts(
    entity: EntityType,
    schema: pa.Schema,
    rows: Sequence[Mapping[str, object]],
    external: ExternalBases,
) -> pa.Table:
    if isinstance(rows, str | Mapping) or not all(isinstance(row, Mapping) for row in rows):
        raise _invalid(entity, "rows are a list of dicts or an Arrow table")
    names = list(dict.fromkeys(str(name) for row in rows for name in row))
    kinds: dict[str, ValueType] = {p.name: p.type for p in entity.properties}
    defaults = default_values(entity)
    arrays = []
    for name in names:
        target = _EDGE_SPELLINGS.get(name, name) if isinstance(entity, EdgeType) else name
        index = schema.get_field_index(target)
        default = defaults.get(name)
        values = [row.get(name, default) for row in rows]
        try:
            if index < 0:
                arrays.append(pa.nulls(len(values)))  # `_refuse_unknown` refuses its name
            else:
                kind = kinds.get(target, ScalarType(ScalarKind.STRING))
                arrays.append(python_column(values, kind, schema.field(index).type, external))
        except InvalidArgument as error:
            message = f"property {name!r}: {error.message}"
            raise _invalid(entity, message, property=name) from error
    return pa.table(dict(zip(names, arrays, strict=True)))


def _delete_ids(entity: EntityType, ids: Sequence[str]) -> pa.Array | None:
    if isinstance(ids, str) or not all(isinstance(i, str) for i in ids):
        raise _invalid(entity, "'delete' is a list of ids, which are strings")
    try:
        return pa.array(list(ids), pa.string()) if len(ids) else None
    except UnicodeError as error:
        raise _invalid(entity, f"'delete': {error}") from error


def _refuse_unknown(entity: EntityType, schema: pa.Schema, table: pa.Table) -> None:
    unknown = [name for name in table.column_names if name not in schema.names]
    if unknown:
        hint = did_you_mean(unknown[0], schema.names)
        names = ", ".join(map(repr, unknown))
        raise _invalid(entity, f"no property {names}; {hint}", property=unknown[0])
    twice = [n for n in schema.names if table.column_names.count(n) > 1]
    if twice:
        raise _invalid(entity, f"column {twice[0]!r} occurs twice", property=twice[0])


def _column(
    entity: EntityType, table: pa.Table, field: pa.Field, count: int, external: ExternalBases
) -> pa.ChunkedArray:
    if field.name not in table.column_names:
        absent = default_column(entity, field, count)
        generated = field.name in generated_defaults(entity)
        if not field.nullable and absent.null_count and not generated:
            message = f"{spelled(field.name)!r} is required"
            raise _invalid(entity, message, property=field.name, rule="required")
        return pa.chunked_array([absent])
    column = table.column(field.name)
    if is_blob(field) and not pa.types.is_null(column.type):
        try:
            column = judged_column(column, external)
        except InvalidArgument as error:
            message = f"property {field.name!r}: {error.message}"
            raise _invalid(entity, message, property=field.name) from error
    if column.type != field.type:
        try:
            column = _cast(column, field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise _invalid(
                entity, f"{field.name!r} does not fit {field.type}: {error}", property=field.name
            ) from error
    return column


def _generated(
    entity: EntityType, field: pa.Field, column: pa.ChunkedArray, mark: pa.Array, now_millis: int
) -> pa.Array:
    """The column with new values in the marked rows."""
    default = generated_defaults(entity)[field.name]
    made = generated_column(default, field.type, mark.true_count, now_millis)
    return pc.replace_with_mask(column.combine_chunks(), mark, made)


def _cast(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type) and pa.types.is_timestamp(target):
        return pa.chunked_array([cut_to_millis(chunk) for chunk in column.chunks], target)
    return column.cast(target)


def _ids(
    entity: EntityType,
    table: pa.Table,
    columns: Mapping[str, pa.ChunkedArray],
    fresh_id: FreshId,
    count: int,
) -> pa.Array | pa.ChunkedArray:
    given = table.column(ID).cast(pa.string()) if ID in table.column_names else None
    if entity.key:
        for name in entity.key:
            if columns[name].null_count:
                row = pc.index(columns[name].is_null(), True).as_py()
                message = f"{spelled(name)!r} is required, row {row} has none"
                raise _invalid(entity, message, property=name, rule="required", row=row)
        derived = derived_ids([columns[name] for name in entity.key])
        # A given id that does not match the key is reported with all other violations.
        return derived if given is None or given.null_count else given
    if given is None:
        return pa.array([fresh_id() for _ in range(count)], pa.string())
    if given.null_count:
        raise _invalid(entity, "'id' may be left out, but not be null")
    return given


def _invalid(
    entity: EntityType,
    message: str,
    *,
    rule: str = "type",
    property: str | None = None,
    row: int | None = None,
) -> ValidationFailed:
    """One violation, in the form in which `integrity` reports its own."""
    violation = {
        "rule": rule,
        "type": entity.name,
        "entity_id": None,
        "property": property,
        "message": message,
    }
    given = {"property": property, "row": row}
    return ValidationFailed(
        f"{entity.table_key}: {message}",
        type=entity.name,
        violations=[violation],
        total=1,
        **{name: value for name, value in given.items() if value is not None},
    )


def python_column(
    values: Sequence[Any], kind: ValueType, target: pa.DataType, external: ExternalBases
) -> pa.Array:
    """The values of one property as Arrow; raises `InvalidArgument` for a value that misfits."""
    if isinstance(kind, BlobType):
        values = [None if value is None else judged_blob(value, external) for value in values]
    if isinstance(kind, ListType | VectorType):
        values = [_listed(value) for value in values]
    if not _is_plain(values, kind):
        values = [None if value is None else _fitted(value, kind) for value in values]
    try:
        return pa.array(values, target)
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        _refuse_misfits(values, kind)
        raise InvalidArgument(str(error)) from error


def _refuse_misfits(values: Sequence[Any], kind: ValueType) -> None:
    """Raise an error that names the value and the expected type, which Arrow's error does not."""
    if not isinstance(kind, BlobType):
        for value in values:
            if value is not None:
                _fitted(value, kind)


def _listed(value: Any) -> Any:
    as_list = getattr(value, "tolist", None)  # numpy arrays
    return as_list() if callable(as_list) else value


def _is_plain(values: Sequence[Any], kind: ValueType) -> bool:
    """Whether Arrow converts all of them as `coerce` would."""
    match kind:
        case BlobType():
            return True
        case EnumType():
            return _has_only(values, _CLASSES[ScalarKind.STRING])
        case ScalarType(scalar):
            return _has_only(values, _CLASSES[scalar])
        case ListType(element):
            return _lists_only(values, _CLASSES[element])
        case VectorType():
            return _lists_only(values, _CLASSES[ScalarKind.F32])


def _lists_only(values: Sequence[Any], items: frozenset[type]) -> bool:
    if not _has_only(values, frozenset({list, tuple})):
        return False
    return _has_only(chain.from_iterable(v for v in values if v is not None), items)


def _has_only(values: Iterable[Any], classes: frozenset[type]) -> bool:
    return set(map(type, values)) <= classes | {_NOTHING}


def _fitted(value: Any, kind: ValueType) -> Any:
    if isinstance(kind, EnumType):
        return coerce(value, _TEXT)  # a rule of `integrity` checks that the enum has the text
    if isinstance(kind, ListType) and isinstance(value, list | tuple):
        value = [_whole(item, kind.element) for item in value]
    elif isinstance(kind, ScalarType):
        value = _whole(value, kind.kind)
    return coerce(value, kind)


def _whole(value: Any, kind: ScalarKind) -> Any:
    """An integer that came as a float: tools without missing integers hold them so."""
    if kind in INTEGER_KINDS and isinstance(value, float) and value.is_integer():
        return int(value)
    return value

"""Arrow tables of any origin (Parquet, pandas, polars, a reader) -> parsed rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import default_column
from omnigraph.catalog.model import SOURCE, TARGET, EdgeType, EntityType, spelled
from omnigraph.errors import InvalidArgument
from omnigraph.load.json_columns import one_array, parse_type, typed_column
from omnigraph.load.parsed_rows import (
    BlobBases,
    Lines,
    ParsedBlock,
    ParsedRows,
    ParseProblem,
    raw_schema,
    unknown_column,
    value_reader,
)
from omnigraph.values.arrow_types import cut_to_millis
from omnigraph.values.blob_columns import has_external
from omnigraph.values.scalars import BlobType, ScalarKind, ScalarType, ValueType, VectorType

_ENDS = {"from": SOURCE, "to": TARGET}


def fit_table(
    entity: EntityType, table: pa.Table, first_row: int, file: str, blobs: BlobBases
) -> ParsedBlock:
    """Rows of `table` as rows of `entity`; the number of a row, from `first_row`, is its line."""
    given = table
    table = table.rename_columns(check_columns(entity, table.column_names, file))
    schema = raw_schema(entity)
    lines: Lines = np.arange(table.num_rows, dtype=np.int64) + first_row
    kinds: dict[str, ValueType] = {p.name: p.type for p in entity.properties}
    block = ParsedBlock(file, table.nbytes)
    columns = []
    bad = np.zeros(table.num_rows, dtype=bool)
    for field in schema:
        if field.name not in table.column_names:
            columns.append(default_column(entity, field, table.num_rows))
            continue
        kind = kinds.get(field.name, ScalarType(ScalarKind.STRING))
        column, reasons = _fit(one_array(table.column(field.name)), kind, field.type, blobs)
        columns.append(column)
        for row, reason in reasons.items():
            bad[row] = True
            name = spelled(field.name)
            problem = ParseProblem("type", int(lines[row]), f"{name!r}: {reason}", entity, name)
            block.problems.append(problem)
    block.problems.sort(key=lambda problem: problem.line)
    fitted = pa.table(columns, schema=schema)
    if bad.any():
        block.broken.append(ParsedRows(entity, fitted.filter(pa.array(bad)), lines[bad]))
        fitted, lines = fitted.filter(pa.array(~bad)), lines[~bad]
    if fitted.num_rows:
        block.rows.append(ParsedRows(entity, fitted, lines))
    block.as_read = lambda line: given.slice(line - first_row, 1).to_pylist()[0]
    return block


def check_columns(entity: EntityType, names: Sequence[str], file: str) -> list[str]:
    """The stored names of columns; a column that the type does not have is refused."""
    stored = [_ENDS.get(name, name) for name in names] if isinstance(entity, EdgeType) else names
    known = raw_schema(entity).names
    for name in stored:
        if name not in known:
            message = f"{file}: {unknown_column(entity, name)}"
            raise InvalidArgument(message, file=file, property=name)
        if stored.count(name) > 1:
            raise InvalidArgument(f"{file}: column {name!r} occurs twice", file=file)
    return list(stored)


def _fit(
    column: pa.Array, kind: ValueType, target: pa.DataType, blobs: BlobBases
) -> tuple[pa.Array, dict[int, str]]:
    """(the typed column, why rows do not fit); such rows are null in the column."""
    column = _plain(column)
    if isinstance(kind, BlobType) and _is_binary(column.type):
        if has_external(column):
            return _one_by_one(column, kind, target, blobs)
        return column.cast(target), {}
    if column.type == target and not pa.types.is_nested(target):
        return column, {}
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), target), {}
    fitted = _fit_at_once(column, kind, target)
    if fitted is not None:
        return fitted, {}
    return _one_by_one(column, kind, target, blobs)


def _fit_at_once(column: pa.Array, kind: ValueType, target: pa.DataType) -> pa.Array | None:
    """The typed column, or None when some row is doubtful."""
    source = column.type
    if isinstance(kind, BlobType):
        return None
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
        return cut_to_millis(column)
    if pa.types.is_timestamp(source) and pa.types.is_date(target):
        return _days(column)
    if isinstance(kind, VectorType) and pa.types.is_fixed_size_list(source):
        column, source = _as_list(column)
    wanted = parse_type(kind)
    if not _same_family(source, wanted) and not _may_be_whole(column, wanted):
        return None
    try:
        fitted, doubtful = typed_column(kind, column.cast(wanted))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return fitted if doubtful is None else None


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _same_family(source: pa.DataType, wanted: pa.DataType) -> bool:
    """A cast between these types fails rather than change a value."""
    if pa.types.is_list(wanted):
        listed = pa.types.is_list(source) or pa.types.is_large_list(source)
        return bool(listed and _same_family(source.value_type, wanted.value_type))
    families: tuple[Callable[[pa.DataType], bool], ...] = (
        pa.types.is_integer,
        pa.types.is_boolean,
        lambda t: pa.types.is_string(t) or pa.types.is_large_string(t),
    )
    if any(family(source) and family(wanted) for family in families):
        return True
    numbers = pa.types.is_floating(source) or pa.types.is_integer(source)
    return bool(pa.types.is_floating(wanted) and numbers)


def _may_be_whole(column: pa.Array, wanted: pa.DataType) -> bool:
    """Whether a cast to `wanted` integers gives the same numbers or fails.

    Spark holds unsigned integers as decimals without a fraction. pandas holds integers as floats
    where one is missing; they are exact up to 2^53.
    """
    if not pa.types.is_integer(wanted):
        return False
    if pa.types.is_decimal(column.type):
        return bool(column.type.scale == 0)
    if not pa.types.is_floating(column.type):
        return False
    largest = pc.max(pc.abs(column)).as_py()
    return largest is None or largest <= 2.0**53


def _days(column: pa.Array) -> pa.Array | None:
    """The days of moments, or None when a moment has a time or a zone."""
    if column.type.tz is not None:
        return None
    try:
        days = column.cast(pa.date32())
        at_midnight = pc.equal(days.cast(column.type), column)
    except pa.ArrowInvalid:
        return None  # outside the calendar
    return days if pc.all(at_midnight, min_count=0).as_py() else None


def _one_by_one(
    column: pa.Array, kind: ValueType, target: pa.DataType, blobs: BlobBases
) -> tuple[pa.Array, dict[int, str]]:
    read = value_reader(kind, blobs)
    values: list[Any] = []
    reasons: dict[int, str] = {}
    for row, stored in enumerate(column):
        fitted = None
        try:
            value = stored.as_py()
            fitted = None if value is None else read(value)
        except InvalidArgument as error:
            reasons[row] = error.message
        except (OverflowError, ValueError) as error:
            reasons[row] = str(error)  # a moment that Python cannot hold
        values.append(fitted)
    return pa.array(values, target), reasons


def _as_list(column: pa.Array) -> tuple[pa.Array, pa.DataType]:
    listed = column.cast(pa.list_(column.type.value_type))
    return listed, listed.type


def _plain(column: pa.Array) -> pa.Array:
    """The same values without dictionaries, views and extension types."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(column.storage)
    if pa.types.is_dictionary(kind):
        return _plain(column.cast(kind.value_type))
    if pa.types.is_string_view(kind):
        return column.cast(pa.string())
    if pa.types.is_binary_view(kind):
        return column.cast(pa.large_binary())
    return column

"""Values as Spark columns: literals, numbers, comparisons of two types, scalar functions.

Literals have exactly their type and never become SQL text. Integers are exact and their overflow
is an error. Functions are Spark's where these mean the same as ours. Spark's `lower`, `round` and
text search follow other rules, so executors compute those with the kernels of the local engine.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from omnigraph.execute.evaluation.arrow_functions import as_arrow_type, call_function, spread
from omnigraph.ir import expressions as ex
from omnigraph.spark.column_types import spark_arrow_schema, spark_type
from omnigraph.spark.query.rows import SparkColumn
from omnigraph.values.scalars import (
    FLOAT_KINDS,
    INTEGER_BOUNDS,
    NUMERIC_KINDS,
    ListType,
    ScalarKind,
    ScalarType,
)
from omnigraph.values.temporal import EPOCH, EPOCH_DAY
from omnigraph.values.text_match import text_mask, text_query

WIDE = spark.DecimalType(20, 0)
"""Holds every integer of 64 bits, signed and unsigned."""

WHITE_SPACE = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
    "\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
"""All characters that the local kernel of `trim` takes for white space."""

_LONGEST = 2**31 - 1
_MILLISECOND = dt.timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """An argument of a scalar function."""

    column: SparkColumn
    type: ex.ExpressionType


def as_spark_type(kind: ex.ExpressionType) -> Any:
    """The type of a value. Lists may hold NULL, because a computed item may be unknown."""
    match kind:
        case ex.WholeType():
            return spark.StringType()
        case ex.NullType():
            return spark.NullType()
        case ex.PathType():
            return spark.ArrayType(spark.StringType())
        case ListType(element):
            return spark.ArrayType(spark_type(ScalarType(element)))
        case _:
            return spark_type(kind)


def literal(value: Any, kind: ex.ExpressionType) -> SparkColumn:
    return _literal(value).cast(as_spark_type(kind))


def moment(milliseconds: int) -> SparkColumn:
    return F.timestamp_millis(F.lit(milliseconds))


def _literal(value: Any) -> SparkColumn:
    match value:
        case dt.datetime():
            aware = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
            return moment((aware - EPOCH) // _MILLISECOND)
        case dt.date():
            return F.date_from_unix_date(F.lit((value - EPOCH_DAY).days))
        case list() | tuple():
            return F.array(*map(_literal, value))
        case bool() | float() | str() | None:
            return F.lit(value)
        case int():
            return F.lit(str(value)).cast(WIDE)
        case _:
            raise TypeError(f"a query has no value of type {type(value).__name__}")


# Numbers


def arithmetic(
    operator: str, left: SparkColumn, right: SparkColumn, kind: ex.ExpressionType
) -> SparkColumn:
    """`+ - * / %` on numbers of type `kind`; `+` joins strings."""
    if not isinstance(kind, ScalarType) or kind.kind not in NUMERIC_KINDS:
        return F.concat(left, right)
    target = spark_type(kind)
    value = _operate(operator, left.cast(target), right.cast(target), kind.kind)
    return fitted(value, kind.kind) if kind.kind is ScalarKind.U64 else value.cast(target)


def negative(operand: SparkColumn, kind: ex.ExpressionType) -> SparkColumn:
    return arithmetic("-", F.lit(0), operand, kind)


def fitted(value: SparkColumn, kind: ScalarKind) -> SparkColumn:
    """The value as this integer type; an error where it does not fit."""
    low, high = (F.lit(str(bound)).cast(WIDE) for bound in INTEGER_BOUNDS[kind])
    target = spark_type(ScalarType(kind))
    refusal = F.raise_error(F.concat(value.cast("string"), F.lit(f" does not fit {kind.value}")))
    fits = value.isNull() | value.between(low, high)
    return F.when(fits, value.cast(target)).otherwise(refusal.cast(target))


def comparable(
    left: SparkColumn,
    left_kind: ex.ExpressionType,
    right: SparkColumn,
    right_kind: ex.ExpressionType,
) -> tuple[SparkColumn, SparkColumn]:
    """Numbers of two types as one type that holds both; other values stay the same."""
    common = _common(left_kind, right_kind)
    if common is None:
        return left, right
    return _cast(left, left_kind, common), _cast(right, right_kind, common)


def _cast(value: SparkColumn, kind: ex.ExpressionType, common: Any) -> SparkColumn:
    if isinstance(kind, ListType):
        return value.cast(spark.ArrayType(common))
    return value.cast(common)


def _common(left: ex.ExpressionType, right: ex.ExpressionType) -> Any:
    kinds = {_number(left), _number(right)}
    if len(kinds) == 1 or None in kinds:
        return None
    if kinds & FLOAT_KINDS:
        return spark.DoubleType()
    return WIDE if ScalarKind.U64 in kinds else spark.LongType()


def _number(kind: ex.ExpressionType) -> ScalarKind | None:
    """The number type of a value, or of the items of a list."""
    match kind:
        case ScalarType(found) | ListType(found) if found in NUMERIC_KINDS:
            return found
        case _:
            return None


def _operate(operator: str, left: SparkColumn, right: SparkColumn, kind: ScalarKind) -> SparkColumn:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "%":
            return left % right
        case "/" if kind in FLOAT_KINDS:
            return left / right
        case "/" if kind is ScalarKind.U64:
            # The division leaves no remainder: a quotient of decimals would be rounded.
            return (left - left % right) / right
        case _:
            return F.call_function("div", left, right)


# Scalar functions


def call_scalar(
    name: str, arguments: Sequence[TypedColumn], kind: ex.ExpressionType
) -> SparkColumn:
    """The value of a function of columns. NULL in gives NULL out, except for `coalesce`."""
    return _FUNCTIONS[name](arguments, kind).cast(as_spark_type(kind))


WITH_CONSTANTS = frozenset({"round", "regex_match"})
"""Functions of one column and constants, which the local kernel computes.

`round` takes halves away from zero by the exact value, Spark by the shortest decimal. Patterns are
those of RE2, not of Java.
"""


def match_local(text: SparkColumn, function: str, query: str, edits: int | None) -> SparkColumn:
    """A text predicate, evaluated by the local kernel."""
    asked = text_query(function, query, edits)

    def compute(texts: pa.Array) -> pa.Array:
        return text_mask(texts, asked)

    return _udf(compute, ex.BOOL)(text)


def call_local(
    name: str,
    arguments: Sequence[TypedColumn],
    kind: ex.ExpressionType,
    constants: Sequence[pa.Scalar] = (),
) -> SparkColumn:
    """A scalar function of columns, then constants, computed by the local kernel.

    `compute` holds no object of this module, so a worker that runs it imports only the kernels.
    """
    given = tuple(as_arrow_type(argument.type) for argument in arguments)
    target = as_arrow_type(kind)
    wire = _wire_type(kind)

    def compute(*columns: pa.Array) -> pa.Array:
        stored = [column.cast(t) for column, t in zip(columns, given, strict=True)]
        values = call_function(name, [*stored, *constants], target)
        return spread(values, len(columns[0])).cast(wire)

    return _udf(compute, kind)(*(argument.column for argument in arguments))


def _udf(compute: Callable[..., Any], kind: ex.ExpressionType) -> Callable[..., SparkColumn]:
    made: Callable[..., SparkColumn] = F.arrow_udf(compute, as_spark_type(kind))
    return made


def _wire_type(kind: ex.ExpressionType) -> pa.DataType:
    """The Arrow type in which a worker hands values of this type to Spark."""
    schema = spark.StructType([spark.StructField("value", as_spark_type(kind))])
    return spark_arrow_schema(schema).field("value").type


def _coalesce(arguments: Sequence[TypedColumn], kind: ex.ExpressionType) -> SparkColumn:
    # In an array all arguments are evaluated, because an error in any of them is an error.
    values = F.array(*(argument.column.cast(as_spark_type(kind)) for argument in arguments))
    return F.get(F.array_compact(values), 0)


def _length(arguments: Sequence[TypedColumn], kind: ex.ExpressionType) -> SparkColumn:
    (argument,) = arguments
    if isinstance(argument.type, ex.PathType):
        return F.floor((F.array_size(argument.column) - 1) / 2)
    is_text = as_spark_type(argument.type).typeName() == "string"
    return F.length(argument.column) if is_text else F.array_size(argument.column)


def _substring(arguments: Sequence[TypedColumn], kind: ex.ExpressionType) -> SparkColumn:
    """Spark counts a start below 1 from the end, so it is refused before."""
    text, *bounds = arguments
    known = reduce(lambda a, b: a & b, (argument.column.isNotNull() for argument in arguments))
    wrong = reduce(
        lambda a, b: a | b,
        (bound.column < least for bound, least in zip(bounds, (1, 0), strict=False)),
    )
    fitting = [
        F.when(bound.column > _LONGEST, _LONGEST).otherwise(bound.column).cast("int")
        for bound in bounds
    ]
    refusal = F.raise_error(F.lit("substring: the first character is 1, a length is not negative"))
    return F.when(known & wrong, refusal.cast("string")).otherwise(F.substr(text.column, *fitting))


def _replace(arguments: Sequence[TypedColumn], kind: ex.ExpressionType) -> SparkColumn:
    return F.replace(*(argument.column for argument in arguments))


def _split(arguments: Sequence[TypedColumn], kind: ex.ExpressionType) -> SparkColumn:
    """Spark splits at a regular expression, so the separator is quoted as one."""
    text, separator = (argument.column for argument in arguments)
    escaped = F.replace(separator, F.lit("\\E"), F.lit("\\E\\\\E\\Q"))
    quoted = F.concat(F.lit("\\Q"), escaped, F.lit("\\E"))
    return F.split(text, F.when(separator == "", separator).otherwise(quoted), -1)


def _trim(arguments: Sequence[TypedColumn], kind: ex.ExpressionType) -> SparkColumn:
    text, *characters = (argument.column for argument in arguments)
    return F.btrim(text, characters[0] if characters else F.lit(WHITE_SPACE))


def _abs(arguments: Sequence[TypedColumn], kind: ex.ExpressionType) -> SparkColumn:
    return F.abs(arguments[0].column.cast(as_spark_type(kind)))


def _date(arguments: Sequence[TypedColumn], kind: ex.ExpressionType) -> SparkColumn:
    given = arguments[0].type
    is_temporal = isinstance(given, ScalarType) and given.kind in (
        ScalarKind.DATE,
        ScalarKind.DATETIME,
    )
    return arguments[0].column if is_temporal else call_local("date", arguments, kind)


def _datetime(arguments: Sequence[TypedColumn], kind: ex.ExpressionType) -> SparkColumn:
    given = arguments[0].type
    is_text = not isinstance(given, ScalarType) or given.kind is ScalarKind.STRING
    return call_local("datetime", arguments, kind) if is_text else arguments[0].column


def _local(name: str) -> Callable[[Sequence[TypedColumn], ex.ExpressionType], SparkColumn]:
    return lambda arguments, kind: call_local(name, arguments, kind)


def _part(function: Callable[[Any], Any]) -> Callable[..., SparkColumn]:
    return lambda arguments, kind: function(arguments[0].column)


_FUNCTIONS: dict[str, Callable[[Sequence[TypedColumn], ex.ExpressionType], SparkColumn]] = {
    "coalesce": _coalesce,
    "lower": _local("lower"),
    "upper": _local("upper"),
    "substring": _substring,
    "replace": _replace,
    "split": _split,
    "trim": _trim,
    "length": _length,
    "abs": _abs,
    "date": _date,
    "datetime": _datetime,
    "year": _part(lambda value: F.year(value)),
    "month": _part(lambda value: F.month(value)),
    "day": _part(lambda value: F.dayofmonth(value)),
    "weekday": _part(lambda value: F.weekday(value) + 1),
    "hour": _part(lambda value: F.hour(value)),
    "minute": _part(lambda value: F.minute(value)),
    "second": _part(lambda value: F.second(value)),
}

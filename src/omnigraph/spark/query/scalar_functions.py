"""The scalar functions: Spark's where they mean the same, the local engine's where not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from omnigraph.ir import expressions as ex
from omnigraph.spark.query.constants import as_spark_type
from omnigraph.spark.query.local_kernels import call_local
from omnigraph.spark.query.rows import SparkColumn
from omnigraph.values.scalars import ScalarKind, ScalarType

Typed = tuple[SparkColumn, ex.ExpressionType]


def call_scalar(name: str, arguments: Sequence[Typed], kind: ex.ExpressionType) -> SparkColumn:
    """The value of a function of columns; NULL in gives NULL out, but for `coalesce`."""
    return _FUNCTIONS[name](arguments, kind).cast(as_spark_type(kind))


def round_to(argument: Typed, digits: pa.Scalar | None, kind: ex.ExpressionType) -> SparkColumn:
    """Halves away from zero, on the exact value: Spark rounds the shortest decimal instead."""
    return call_local("round", [argument], [] if digits is None else [digits], kind)


def _coalesce(arguments: Sequence[Typed], kind: ex.ExpressionType) -> SparkColumn:
    # All are evaluated, as everywhere: an error in any of them is an error.
    values = F.array(*(column.cast(as_spark_type(kind)) for column, _ in arguments))
    return F.get(F.array_compact(values), 0)


def _length(arguments: Sequence[Typed], kind: ex.ExpressionType) -> SparkColumn:
    ((value, given),) = arguments
    if isinstance(given, ex.PathType):
        return F.floor((F.array_size(value) - 1) / 2)
    is_text = as_spark_type(given).typeName() == "string"
    return F.length(value) if is_text else F.array_size(value)


def _abs(arguments: Sequence[Typed], kind: ex.ExpressionType) -> SparkColumn:
    return F.abs(arguments[0][0].cast(as_spark_type(kind)))


def _date(arguments: Sequence[Typed], kind: ex.ExpressionType) -> SparkColumn:
    value, given = arguments[0]
    is_temporal = isinstance(given, ScalarType) and given.kind in (
        ScalarKind.DATE,
        ScalarKind.DATETIME,
    )
    return value if is_temporal else call_local("date", arguments, [], kind)


def _datetime(arguments: Sequence[Typed], kind: ex.ExpressionType) -> SparkColumn:
    value, given = arguments[0]
    is_text = not isinstance(given, ScalarType) or given.kind is ScalarKind.STRING
    return call_local("datetime", arguments, [], kind) if is_text else value


def _local(name: str) -> Callable[[Sequence[Typed], ex.ExpressionType], SparkColumn]:
    return lambda arguments, kind: call_local(name, arguments, [], kind)


def _part(function: Callable[[Any], Any]) -> Callable[..., SparkColumn]:
    return lambda arguments, kind: function(arguments[0][0])


_FUNCTIONS: dict[str, Callable[[Sequence[Typed], ex.ExpressionType], SparkColumn]] = {
    "coalesce": _coalesce,
    "lower": _local("lower"),
    "upper": _local("upper"),
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

"""Values of the query as Spark literals of exactly their type; never as SQL text."""

from __future__ import annotations

import datetime as dt
from typing import Any

from pyspark.sql import functions as F
from pyspark.sql import types as spark

from omnigraph.ir import expressions as ex
from omnigraph.spark.column_types import spark_type
from omnigraph.spark.query.rows import SparkColumn
from omnigraph.values.scalars import ListType, ScalarType
from omnigraph.values.temporal import EPOCH, EPOCH_DAY

_MILLISECOND = dt.timedelta(milliseconds=1)


def as_spark_type(kind: ex.ExpressionType) -> Any:
    """The type of a value; lists may hold NULL here, for what is computed may be unknown."""
    match kind:
        case ex.EntityType():
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
            return F.lit(str(value)).cast(spark.DecimalType(20, 0))
        case _:
            raise TypeError(f"{type(value).__name__} is no value of a query")

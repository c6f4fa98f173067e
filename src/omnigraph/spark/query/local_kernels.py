"""Functions that the executors compute with the kernels of the local engine.

Spark's own `lower`, `round` or text search follow other rules than ours; here the answer is the
same one because the code is. What an executor needs of it is imported when it runs the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from omnigraph.execute.evaluation.scalar_functions import call_function
from omnigraph.execute.evaluation.value_arrays import as_arrow_type
from omnigraph.ir import expressions as ex
from omnigraph.spark.column_types import spark_arrow_schema
from omnigraph.spark.query.constants import as_spark_type
from omnigraph.spark.query.rows import SparkColumn
from omnigraph.values.text_match import text_mask, text_query

Kernel = Callable[..., Any]


def call_local(
    name: str,
    arguments: Sequence[tuple[SparkColumn, ex.ExpressionType]],
    constants: Sequence[pa.Scalar],
    kind: ex.ExpressionType,
) -> SparkColumn:
    """A scalar function of columns, then constants."""
    given = tuple(as_arrow_type(argument) for _, argument in arguments)
    target = as_arrow_type(kind)
    wire = _wire_type(kind)

    def compute(*columns: pa.Array) -> pa.Array:
        stored = [_as_stored(c, t) for c, t in zip(columns, given, strict=True)]
        return call_function(name, [*stored, *constants], target).cast(wire)

    return _udf(compute, kind)(*(column for column, _ in arguments))


def match_local(text: SparkColumn, function: str, query: str, edits: int | None) -> SparkColumn:
    """A text predicate, judged text by text."""
    asked = text_query(function, query, edits)

    def compute(texts: pa.Array) -> pa.Array:
        return text_mask(texts, asked)

    return _udf(compute, ex.BOOL)(text)


def _udf(compute: Kernel, kind: ex.ExpressionType) -> Callable[..., SparkColumn]:
    made: Callable[..., SparkColumn] = F.arrow_udf(compute, as_spark_type(kind))
    return made


def _wire_type(kind: ex.ExpressionType) -> pa.DataType:
    schema = spark.StructType([spark.StructField("value", as_spark_type(kind))])
    return spark_arrow_schema(schema).field("value").type


def _as_stored(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column as it crossed the border, in the type the local kernels expect."""
    return values.cast(kind)

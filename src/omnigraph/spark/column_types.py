"""OmniGraph types as Spark types, and Arrow columns in the form that Spark takes.

Spark has no unsigned and no fixed-size types: U32 is a long, U64 a decimal, a vector an array. A
`DateTime` is a moment, so it is Spark's `timestamp` (UTC inside), never `timestamp_ntz`. Only code
that has a session, or runs in one, may import this module, because it imports pyspark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from omnigraph.catalog.model import ID, SOURCE, TARGET, EdgeType, EntityType
from omnigraph.values.arrow_types import SCALAR_ARROW
from omnigraph.values.scalars import (
    BlobType,
    EnumType,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)

SparkType = Any
"""A `pyspark.sql.types.DataType`."""

SCALAR_SPARK: dict[ScalarKind, SparkType] = {
    ScalarKind.STRING: spark.StringType(),
    ScalarKind.BOOL: spark.BooleanType(),
    ScalarKind.I32: spark.IntegerType(),
    ScalarKind.I64: spark.LongType(),
    ScalarKind.U32: spark.LongType(),
    ScalarKind.U64: spark.DecimalType(20, 0),
    ScalarKind.F32: spark.FloatType(),
    ScalarKind.F64: spark.DoubleType(),
    ScalarKind.DATE: spark.DateType(),
    ScalarKind.DATETIME: spark.TimestampType(),
}


def spark_type(value_type: ValueType) -> SparkType:
    """The Spark type of one property value."""
    match value_type:
        case ScalarType(kind):
            return SCALAR_SPARK[kind]
        case ListType(element):
            return spark.ArrayType(SCALAR_SPARK[element], containsNull=False)
        case VectorType():
            return spark.ArrayType(spark.FloatType(), containsNull=False)
        case EnumType():
            return spark.StringType()
        case BlobType():
            return spark.BinaryType()


_ARROW_SPARK: dict[Any, SparkType] = {
    arrow: SCALAR_SPARK[kind] for kind, arrow in SCALAR_ARROW.items()
}


def spark_type_of(kind: pa.DataType) -> SparkType:
    """The Spark type of a column of a result."""
    if pa.types.is_timestamp(kind):
        return spark.TimestampType()
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return spark.ArrayType(spark_type_of(kind.value_type))
    if pa.types.is_struct(kind):
        return spark.StructType(
            [spark.StructField(field.name, spark_type_of(field.type)) for field in kind]
        )
    if pa.types.is_null(kind):
        return spark.NullType()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return spark.BinaryType()
    return _ARROW_SPARK[kind]


def frame_of_table(session: Any, table: pa.Table) -> Any:
    """A `DataFrame` of the rows of a local result."""
    schema = spark.StructType(
        [spark.StructField(field.name, spark_type_of(field.type)) for field in table.schema]
    )
    if not table.num_rows:
        return session.createDataFrame([], schema)
    wanted = spark_arrow_schema(schema)
    return session.createDataFrame(
        pa.Table.from_batches(to_spark_batches(table, wanted), wanted), schema
    )


def spark_schema(entity: EntityType) -> SparkType:
    """`id` (+ `src`, `dst`) then the properties, as a `StructType`."""
    system = [ID, SOURCE, TARGET] if isinstance(entity, EdgeType) else [ID]
    fields = [spark.StructField(name, spark.StringType(), nullable=False) for name in system]
    fields += [
        spark.StructField(p.name, spark_type(p.type), nullable=p.nullable)
        for p in entity.properties
    ]
    return spark.StructType(fields)


def spark_arrow_schema(schema: SparkType) -> pa.Schema:
    """The exact Arrow schema that Spark requires for rows of a `StructType`."""
    return to_arrow_schema(schema, timezone="UTC")


def to_spark_batches(table: pa.Table, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows of a table as Spark requires them; `wanted` comes from `spark_arrow_schema`."""
    columns = [_as_spark(table.column(field.name), field.type) for field in wanted]
    yield from pa.Table.from_arrays(columns, schema=wanted).to_batches()


def _as_spark(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_timestamp(wanted) and column.type.tz is None:
        # Stored moments are in UTC, but their type does not name a time zone.
        column = column.cast(pa.timestamp(column.type.unit, "UTC"))
    if pa.types.is_fixed_size_list(column.type):
        column = column.cast(pa.list_(column.type.value_type))
    return column.cast(wanted)

"""Rows of the change feed as Spark sees them, and where a stream of them stands."""

from __future__ import annotations

from typing import Any

from pyspark.sql import types as spark

from omnigraph.catalog.model import EntityType
from omnigraph.spark.column_types import spark_schema

COMMIT, MOMENT, KIND, TYPE, ID, OP = "commit", "committed_at", "kind", "type", "id", "op"
BEFORE, AFTER = "before", "after"


def change_schema(entity: EntityType | None) -> Any:
    """One row a change; images are structs of one type, or JSON when types are mixed."""
    image = spark.StringType() if entity is None else image_type(entity)
    fields = [
        spark.StructField(COMMIT, spark.StringType(), nullable=False),
        spark.StructField(MOMENT, spark.TimestampType(), nullable=False),
        *(spark.StructField(name, spark.StringType(), nullable=False) for name in (KIND, TYPE)),
        *(spark.StructField(name, spark.StringType(), nullable=False) for name in (ID, OP)),
        spark.StructField(BEFORE, image),
        spark.StructField(AFTER, image),
    ]
    return spark.StructType(fields)


def image_type(entity: EntityType) -> Any:
    """Every field may be NULL: an older image does not have properties that were added later."""
    fields = spark_schema(entity).fields
    return spark.StructType([spark.StructField(f.name, f.dataType, True) for f in fields])

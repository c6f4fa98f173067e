"""Rows of one pinned type for Spark. Runs in executors: imports what reading needs, no graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from omnigraph.errors import InvalidArgument
from omnigraph.lance_store.reads.scan import read_fragments
from omnigraph.spark.column_types import spark_arrow_schema, spark_schema, to_spark_batches
from omnigraph.spark.source.failures import told_to_spark
from omnigraph.spark.source.pinned_table import PinnedTable


@dataclass(frozen=True, slots=True)
class FragmentGroup(InputPartition):
    """What one task reads."""

    fragments: tuple[int, ...]


def table_fields(table: PinnedTable) -> Any:
    """The `StructType` of the columns that are wanted."""
    fields = {field.name: field for field in spark_schema(table.entity).fields}
    return StructType([fields[name] for name in table.columns])


class TableReader(DataSourceReader):
    """Reads fragment groups of one version; others may write, compact and branch meanwhile."""

    def __init__(self, table: PinnedTable, schema: Any) -> None:
        self._table = replace(table, columns=tuple(schema.fieldNames()))
        self._schema = schema
        _check_schema(table, schema)

    def partitions(self) -> list[FragmentGroup]:
        return [FragmentGroup(group) for group in self._table.groups] or [FragmentGroup(())]

    def read(self, partition: FragmentGroup) -> Iterator[pa.RecordBatch]:
        table = self._table
        wanted = spark_arrow_schema(self._schema)
        if not partition.fragments:
            return
        with told_to_spark():
            for rows in read_fragments(
                table.target, partition.fragments, table.columns, table.row_filter
            ):
                yield from to_spark_batches(rows, wanted)


def _check_schema(table: PinnedTable, schema: Any) -> None:
    """A schema given to `.schema(…)` picks columns; it does not convert them."""
    known = {field.name: field for field in spark_schema(table.entity).fields}
    for field in schema.fields:
        ours = known.get(field.name)
        if ours is None:
            raise InvalidArgument(
                f"{table.entity.name} has no {field.name!r}; it has: {', '.join(known)}",
                property=field.name,
            )
        wanted, given = ours.dataType.simpleString(), field.dataType.simpleString()
        if wanted != given:
            raise InvalidArgument(
                f"{table.entity.name}.{field.name} is {wanted}, the schema says {given}: "
                "read it as it is and cast the DataFrame",
                property=field.name,
            )
        if ours.nullable and not field.nullable:
            raise InvalidArgument(
                f"{table.entity.name}.{field.name} may be NULL, the schema says NOT NULL",
                property=field.name,
            )

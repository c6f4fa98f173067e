"""The tables of a snapshot as DataFrames: only the columns and, where it helps, the rows asked for.

A table of any size is read by the executors, fragment by fragment, at the version the snapshot
pins. A query whose tables are all small reads them here and runs in one task: on so little data
shuffles and workers would be all it costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from omnigraph.catalog.model import ID, EntityType
from omnigraph.ir.expressions import Variable
from omnigraph.lance_store.reads.scan import fragment_ids, read_table, read_target
from omnigraph.lance_store.store import Store
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.spark.column_types import (
    spark_arrow_schema,
    spark_schema,
    spark_type,
    to_spark_batches,
)
from omnigraph.spark.query.fragment_tasks import FragmentScan, read_tasks
from omnigraph.spark.query.needed_columns import NeededColumns
from omnigraph.spark.query.rows import Bound, Frame
from omnigraph.spark.query.sessions import QuerySession

_ROWS_PER_TASK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class GraphTables:
    """One query's view of one snapshot."""

    store: Store
    snapshot: Snapshot
    sessions: QuerySession
    needed: NeededColumns
    in_one_task: bool

    def naming(self, variable: Variable) -> Bound:
        """Where a variable's columns will be: names are numbers, so none is ever taken twice."""
        prefix = f"v{variable.id}"
        names = self.needed.of(variable)
        properties = {name: f"{prefix}_{number}" for number, name in enumerate(names)}
        several = len(variable.types) > 1
        return Bound(
            variable.types, f"{prefix}_id", f"{prefix}_type" if several else None, properties
        )

    def entities(self, variable: Variable, conditions: Sequence[str] = ()) -> tuple[Bound, Frame]:
        """Every entity of the variable's types, as its columns."""
        bound = self.naming(variable)
        parts = []
        for name in variable.types:
            entity = self.snapshot.catalog.resolve(name)
            table, columns = self.columns_of(entity, bound, conditions)
            kept = [F.col(ID).alias(bound.id)]
            kept += [F.lit(name).alias(bound.type)] if bound.type is not None else []
            parts.append(table.select(*kept, *columns))
        return bound, self.union(parts)

    def columns_of(
        self, entity: EntityType, bound: Bound, conditions: Sequence[str] = (), *more: str
    ) -> tuple[Frame, list[Any]]:
        """(a table with `more`, and its share of a variable's properties under their names)."""
        schema = spark_schema(entity)
        own = [name for name in bound.properties if name in schema.names]
        table = self.table(entity, [ID, *more, *own], conditions)
        columns = [
            (F.col(name) if name in own else F.lit(None).cast(self._type_of(bound, name))).alias(to)
            for name, to in bound.properties.items()
        ]
        return table, columns

    def table(self, entity: EntityType, columns: Sequence[str], conditions: Sequence[str]) -> Frame:
        """Rows of one type that may pass the conditions; whoever has them asks again."""
        wanted = list(dict.fromkeys(columns))
        whole = spark_schema(entity)
        schema = spark.StructType([_relaxed(whole[name]) for name in wanted])
        row_filter = " AND ".join(conditions) or None
        if self.in_one_task:
            return self._local(entity, schema, row_filter)
        return self._distributed(entity, schema, row_filter)

    def union(self, parts: Sequence[Frame]) -> Frame:
        whole = reduce(lambda one, other: one.unionAll(other), parts)
        return whole.coalesce(1) if self.in_one_task and len(parts) > 1 else whole

    def empty(self, schema: Any) -> Frame:
        return self.sessions.frame([], schema)

    def _local(self, entity: EntityType, schema: Any, row_filter: str | None) -> Frame:
        dataset = self.store.open(self.snapshot.pin(entity.table_key).at)
        rows = read_table(dataset, schema.names, row_filter)
        if not rows.num_rows:
            return self.empty(schema)  # it may have no chunks, of which Arrow makes no lists
        wanted = spark_arrow_schema(schema)
        table = pa.Table.from_batches(to_spark_batches(rows, wanted), wanted)
        return self.sessions.frame(table, schema).coalesce(1)

    def _distributed(self, entity: EntityType, schema: Any, row_filter: str | None) -> Frame:
        at = self.snapshot.pin(entity.table_key).at
        tasks = _in_tasks(fragment_ids(self.store, at))
        if not tasks:
            return self.empty(schema)
        scan = FragmentScan(read_target(self.store, at), tuple(schema.names), row_filter, tasks)
        numbers = self.sessions.session.range(0, len(tasks), 1, len(tasks))
        return numbers.mapInArrow(read_tasks(scan, spark_arrow_schema(schema)), schema)

    def _type_of(self, bound: Bound, name: str) -> Any:
        """Types that share a property give it one type."""
        for type_name in bound.types:
            for declared in self.snapshot.catalog.resolve(type_name).properties:
                if declared.name == name:
                    return spark_type(declared.type)
        return spark.StringType()


def _relaxed(field: Any) -> Any:
    """Arrow fills lists that are NULL with items that are, and pyspark refuses to cast those."""
    if not isinstance(field.dataType, spark.ArrayType):
        return field
    items = spark.ArrayType(field.dataType.elementType, containsNull=True)
    return spark.StructField(field.name, items, field.nullable)


def _in_tasks(fragments: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """Neighbouring fragments together, up to so many rows."""
    tasks: list[list[int]] = []
    held = _ROWS_PER_TASK
    for fragment, rows in fragments:
        if held + rows > _ROWS_PER_TASK:
            tasks.append([])
            held = 0
        tasks[-1].append(fragment)
        held += rows
    return tuple(map(tuple, tasks))

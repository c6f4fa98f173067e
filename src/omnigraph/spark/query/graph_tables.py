"""The tables of a snapshot as DataFrames, with only the columns that the query needs.

Executors read a table fragment by fragment, at the version that the snapshot pins. A query whose
tables are all small reads them in this process and runs in one task, because shuffles and workers
would take most of its time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from omnigraph.catalog.model import ID, SOURCE, TARGET, EdgeType, EntityType
from omnigraph.ir.expressions import Variable
from omnigraph.lance_store.reads.scan import (
    ROWS_PER_TASK,
    fragment_groups,
    read_fragments,
    read_table,
)
from omnigraph.lance_store.store import Store, VersionAddress
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.stored_columns import require_columns
from omnigraph.scoping.visible_rows import TableRule
from omnigraph.spark.column_types import (
    spark_arrow_schema,
    spark_schema,
    spark_type,
    to_spark_batches,
)
from omnigraph.spark.jobs import task_numbers
from omnigraph.spark.query.expressions import Expressions
from omnigraph.spark.query.rows import EntityColumns, Frame, NeededColumns
from omnigraph.spark.query.sessions import QuerySession
from omnigraph.values.conditions import Condition

_ROWS_PER_TASK = ROWS_PER_TASK


@dataclass(frozen=True, slots=True)
class GraphTables:
    """One query's view of one snapshot."""

    store: Store
    snapshot: Snapshot
    sessions: QuerySession
    needed: NeededColumns
    in_one_task: bool

    def naming(self, variable: Variable) -> EntityColumns:
        """The column names of a variable. They contain its number, so no two variables clash."""
        prefix = f"v{variable.id}"
        names = self.needed.of(variable)
        return EntityColumns(
            types=variable.types,
            id=f"{prefix}_id",
            type=f"{prefix}_type" if len(variable.types) > 1 else None,
            properties={name: f"{prefix}_{number}" for number, name in enumerate(names)},
        )

    def entities(
        self, variable: Variable, conditions: Sequence[Condition] = ()
    ) -> tuple[EntityColumns, Frame]:
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
        self,
        entity: EntityType,
        bound: EntityColumns,
        conditions: Sequence[Condition] = (),
        more: Sequence[str] = (),
    ) -> tuple[Frame, list[Any]]:
        """The table of one type, and the variable's properties as columns over that table.

        `more` names stored columns that the table needs besides. Properties that this type does
        not have are NULL.
        """
        schema = spark_schema(entity)
        own = [name for name in bound.properties if name in schema.names]
        table = self.table(entity, [ID, *more, *own], conditions)
        columns = [
            (F.col(name) if name in own else F.lit(None).cast(self._type_of(bound, name))).alias(to)
            for name, to in bound.properties.items()
        ]
        return table, columns

    def table(
        self, entity: EntityType, columns: Sequence[str], conditions: Sequence[Condition]
    ) -> Frame:
        """Rows of one type that may pass the conditions; the caller evaluates them again.

        Every table of a query is read here, so rules about rows are applied here and not in
        operators. An edge is left out, too, when one of its ends is out of scope.
        """
        require_columns(self.store, self.snapshot, self.snapshot.pin(entity.table_key))
        ends = self._ends_with_rules(entity)
        wanted = list(dict.fromkeys(columns))
        read = list(dict.fromkeys((*wanted, *ends)))
        whole = spark_schema(entity)
        schema = spark.StructType([_relaxed(whole[name]) for name in read])
        make = self._local if self.in_one_task else self._distributed
        found = make(entity, schema, conditions)
        for column, node in ends.items():
            nodes = self.table(node, [ID], ()).select(F.col(ID).alias(f"{column}_in_scope"))
            found = found.join(nodes, F.col(column) == F.col(f"{column}_in_scope"), "left_semi")
        return found if read == wanted else found.select(*wanted)

    def _ends_with_rules(self, entity: EntityType) -> dict[str, EntityType]:
        """The columns of an edge type whose nodes have a rule about rows."""
        scope = self.snapshot.scope
        if scope is None or not isinstance(entity, EdgeType):
            return {}
        ends = {SOURCE: entity.source, TARGET: entity.target}
        return {
            column: self.snapshot.catalog.node_types[name]
            for column, name in ends.items()
            if scope.rows_of(name) is not None
        }

    def _rule(self, entity: EntityType) -> TableRule | None:
        """The rule about the rows of a type by themselves; ends of edges are joined."""
        scope = self.snapshot.scope
        rows = None if scope is None else scope.rows_of(entity.name)
        return None if rows is None else TableRule(rows)

    def union(self, parts: Sequence[Frame]) -> Frame:
        whole = reduce(lambda one, other: one.unionAll(other), parts)
        return whole.coalesce(1) if self.in_one_task and len(parts) > 1 else whole

    def empty(self, schema: Any) -> Frame:
        return self.sessions.frame([], schema)

    def _local(self, entity: EntityType, schema: Any, conditions: Sequence[Condition]) -> Frame:
        dataset = self.store.open(self.snapshot.pin(entity.table_key).at)
        rule = self._rule(entity)
        columns, tested = _to_read(schema.names, conditions, rule)
        rows = read_table(dataset, columns, tested)
        rows = rows if rule is None else rule.keep(rows)
        if not rows.num_rows:
            # An empty table may have no chunks, and Arrow cannot make list columns of no chunks.
            return self.empty(schema)
        wanted = spark_arrow_schema(schema)
        table = pa.Table.from_batches(to_spark_batches(rows, wanted), wanted)
        return self.sessions.frame(table, schema).coalesce(1)

    def _distributed(
        self, entity: EntityType, schema: Any, conditions: Sequence[Condition]
    ) -> Frame:
        at = self.snapshot.pin(entity.table_key).at
        tasks = fragment_groups(self.store, at, _ROWS_PER_TASK)
        if not tasks:
            return self.empty(schema)
        rule = self._rule(entity)
        columns, tested = _to_read(schema.names, conditions, rule)
        read = read_tasks(
            target=self.store.address(at),
            columns=tuple(columns),
            conditions=tested,
            rule=rule,
            tasks=tasks,
            wanted=spark_arrow_schema(schema),
        )
        numbers = task_numbers(self.sessions.session, len(tasks))
        return numbers.mapInArrow(read, schema)

    def _type_of(self, bound: EntityColumns, name: str) -> Any:
        """The type of a property is the same in all types that share it."""
        for type_name in bound.types:
            for declared in self.snapshot.catalog.resolve(type_name).properties:
                if declared.name == name:
                    return spark_type(declared.type)
        return spark.StringType()


@dataclass(frozen=True, slots=True)
class Compilation:
    """What operators need to become DataFrames: one object per run of one query."""

    tables: GraphTables
    expressions: Expressions
    kept: list[Frame] = field(default_factory=list)
    """Frames that are persisted until the answer is complete."""

    def keep(self, frame: Frame) -> Frame:
        """Persist rows that several steps read, so that Spark computes them once."""
        self.kept.append(frame.persist())
        return self.kept[-1]

    def release(self) -> None:
        while self.kept:
            self.kept.pop().unpersist()


def read_tasks(
    *,
    target: VersionAddress,
    columns: tuple[str, ...],
    conditions: Sequence[Condition],
    tasks: tuple[tuple[int, ...], ...],
    wanted: pa.Schema,
    rule: TableRule | None = None,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` over task numbers; `tasks` lists the fragments of each.

    It holds no object of this module, so a worker that runs it does not import this module.
    """

    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for table in read_fragments(target, tasks[number], columns, conditions):
                    kept = table if rule is None else rule.keep(table)
                    yield from to_spark_batches(kept, wanted)

    return run


def _to_read(
    names: Sequence[str], conditions: Sequence[Condition], rule: TableRule | None
) -> tuple[list[str], Sequence[Condition]]:
    """The columns and conditions of a read whose rows a rule tests after it."""
    if rule is None:
        return list(names), conditions
    return list(dict.fromkeys((*names, *rule.columns))), (*conditions, *rule.conditions)


def _relaxed(field: Any) -> Any:
    """A list column whose items may be NULL.

    Arrow fills NULL lists with NULL items, and pyspark refuses to cast these otherwise.
    """
    if not isinstance(field.dataType, spark.ArrayType):
        return field
    items = spark.ArrayType(field.dataType.elementType, containsNull=True)
    return spark.StructField(field.name, items, field.nullable)

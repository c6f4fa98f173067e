"""The tables of a snapshot as DataFrames, with only the columns that the query needs.

Executors read a table fragment by fragment, at the version that the snapshot pins. A query whose
tables are all small reads them in this process and runs in one task, because shuffles and workers
would take most of its time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
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
from omnigraph.spark.jvm import task_frame
from omnigraph.spark.query.best_rows import BestRows
from omnigraph.spark.query.expressions import Expressions
from omnigraph.spark.query.hashed_keys import with_hashes
from omnigraph.spark.query.rows import EntityColumns, Frame, NeededColumns
from omnigraph.spark.query.scan_groups import ScanGroups
from omnigraph.spark.query.sessions import QuerySession
from omnigraph.values.conditions import Condition
from omnigraph.values.identifiers import TableKey

_ROWS_PER_TASK = ROWS_PER_TASK


@dataclass(frozen=True, slots=True)
class GraphTables:
    """One query's view of one snapshot."""

    store: Store
    snapshot: Snapshot
    sessions: QuerySession
    needed: NeededColumns
    in_one_task: bool
    keys_are_hashed: bool = False
    """Ids of nodes and ends of edges are their hashes, because no operator reads their texts.

    A hash stands for one id only (`hashed_keys.py`), so joins and groups are the same.
    """
    best: BestRows | None = None
    """Which rows of one variable are enough for the limit above; None: all rows are needed."""

    def naming(self, variable: Variable) -> EntityColumns:
        """The column names of a variable. They contain its number, so no two variables clash."""
        prefix = f"v{variable.id}"
        return EntityColumns(
            types=variable.types,
            id=f"{prefix}_id",
            type=f"{prefix}_type" if len(variable.types) > 1 else None,
            properties=self.needed.of(variable, prefix),
        )

    def rows_of(self, entities: Iterable[TableKey]) -> int:
        """How many rows these tables have, those out of scope included."""
        return sum(self.snapshot.pin(key).row_count for key in entities)

    def entities(
        self,
        variable: Variable,
        conditions: Sequence[Condition] = (),
        columns: EntityColumns | None = None,
    ) -> tuple[EntityColumns, Frame]:
        """Every entity of the variable's types, as its columns, or as some of them."""
        bound = columns or self.naming(variable)
        parts = []
        for name in variable.types:
            entity = self.snapshot.catalog.resolve(name)
            table, properties = self.columns_of(entity, bound, conditions)
            kept = [F.col(ID).alias(bound.id)]
            kept += [F.lit(name).alias(bound.type)] if bound.type is not None else []
            parts.append(table.select(*kept, *properties))
        return bound, self.union(parts)

    def columns_of(
        self,
        entity: EntityType,
        bound: EntityColumns,
        conditions: Sequence[Condition] = (),
        system: Sequence[str] = (ID,),
    ) -> tuple[Frame, list[Any]]:
        """The table of one type, and the variable's properties as columns over that table.

        `system` names stored columns that the table needs besides. Properties that this type does
        not have are NULL.
        """
        schema = spark_schema(entity)
        own = [name for name in bound.properties if name in schema.names]
        best = self.best if self.best is not None and self.best.entity == bound.id else None
        table = self.table(entity, [*system, *own], conditions, best)
        columns = [
            (F.col(name) if name in own else F.lit(None).cast(self._type_of(bound, name))).alias(to)
            for name, to in bound.properties.items()
        ]
        return table, columns

    def table(
        self,
        entity: EntityType,
        columns: Sequence[str],
        conditions: Sequence[Condition],
        best: BestRows | None = None,
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
        if self.in_one_task:
            found = self._local(entity, schema, conditions)
        else:
            found = self._distributed(entity, schema, conditions, best)
        for column, node in ends.items():
            nodes = self.table(node, [ID], ()).select(F.col(ID).alias(f"{column}_in_scope"))
            found = found.join(nodes, F.col(column) == F.col(f"{column}_in_scope"), "left_semi")
        return found if read == wanted else found.select(*wanted)

    def grouped(self, entity: EntityType, groups: ScanGroups) -> Frame:
        """The groups of all nodes of a type, some of them several times."""
        pin = self.snapshot.pin(entity.table_key)
        require_columns(self.store, self.snapshot, pin)
        rule = self._rule(entity)
        columns, tested = _to_read(groups.columns, (), rule)
        schema = _schema_of_groups(groups, spark_schema(entity))
        tasks = fragment_groups(self.store, pin.at, _ROWS_PER_TASK)
        if not tasks:
            return self.empty(schema)
        read = read_tasks(
            target=self.store.address(pin.at),
            columns=tuple(columns),
            conditions=tested,
            rule=rule,
            tasks=tasks,
            wanted=spark_arrow_schema(schema),
            groups=groups,
        )
        found = task_frame(self.sessions.session, len(tasks), read, schema)
        # Spark then knows that the groups are in one task, and shuffles and sorts nothing.
        return found.coalesce(1) if len(tasks) == 1 else found

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
        self,
        entity: EntityType,
        schema: Any,
        conditions: Sequence[Condition],
        best: BestRows | None,
    ) -> Frame:
        at = self.snapshot.pin(entity.table_key).at
        columns, tested = _to_read(schema.names, conditions, self._rule(entity))
        hashed = tuple(name for name in self._hashed(entity) if name in schema.names)
        schema = spark.StructType([_hashed(f) if f.name in hashed else f for f in schema.fields])
        tasks = fragment_groups(self.store, at, _ROWS_PER_TASK)
        if not tasks:
            return self.empty(schema)
        read = read_tasks(
            target=self.store.address(at),
            columns=tuple(columns),
            conditions=tested,
            rule=self._rule(entity),
            tasks=tasks,
            wanted=spark_arrow_schema(schema),
            hashed=hashed,
            best=best,
        )
        return task_frame(self.sessions.session, len(tasks), read, schema)

    def _hashed(self, entity: EntityType) -> tuple[str, ...]:
        """The columns that are read as hashes. The id of an edge is not, because no edge has it."""
        if not self.keys_are_hashed:
            return ()
        return (SOURCE, TARGET) if isinstance(entity, EdgeType) else (ID,)

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
    repeats: bool = False
    """Equal rows do not matter: an operator above drops them, or asks only whether there is one."""

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
    hashed: tuple[str, ...] = (),
    best: BestRows | None = None,
    groups: ScanGroups | None = None,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` over task numbers; `tasks` lists the fragments of each.

    It holds no object of this module, so a worker that runs it does not import this module. A
    worker imports what makes hashes only if there are `hashed` columns.
    """
    make_hashes = partial(with_hashes, names=hashed) if hashed else None

    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                found = read_fragments(target, tasks[number], columns, conditions)
                if rule is not None:
                    found = map(rule.keep, found)
                if groups is not None:
                    found = groups.of(found)
                for table in found if best is None else best.among(found):
                    rows = table if make_hashes is None else make_hashes(table)
                    yield from to_spark_batches(rows, wanted)

    return run


def _to_read(
    names: Sequence[str], conditions: Sequence[Condition], rule: TableRule | None
) -> tuple[list[str], Sequence[Condition]]:
    """The columns and conditions of a read whose rows a rule tests after it."""
    if rule is None:
        return list(names), conditions
    return list(dict.fromkeys((*names, *rule.columns))), (*conditions, *rule.conditions)


def _schema_of_groups(groups: ScanGroups, stored: Any) -> Any:
    keys = [
        spark.StructField(f"g{number}", stored[name].dataType, stored[name].nullable)
        for number, name in enumerate(groups.keys)
    ]
    values = [
        spark.StructField(
            f"p{number}",
            stored[value.column].dataType
            if value.column is not None and value.function in ("min", "max")
            else spark.LongType(),
        )
        for number, value in enumerate(groups.values)
    ]
    return spark.StructType([*keys, *values])


def _hashed(field: Any) -> Any:
    return spark.StructField(field.name, spark.LongType(), field.nullable)


def _relaxed(field: Any) -> Any:
    """A list column whose items may be NULL.

    Arrow fills NULL lists with NULL items, and pyspark refuses to cast these otherwise.
    """
    if not isinstance(field.dataType, spark.ArrayType):
        return field
    items = spark.ArrayType(field.dataType.elementType, containsNull=True)
    return spark.StructField(field.name, items, field.nullable)

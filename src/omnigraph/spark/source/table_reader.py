"""Read one type at one commit for Spark. Executors import this module, so it opens no graph.

`pin` is the exception: it runs beside the driver, and imports what it needs itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from omnigraph.catalog.model import EntityType
from omnigraph.errors import InvalidArgument
from omnigraph.lance_store.reads.scan import (
    fragment_groups,
    read_fragments,
)
from omnigraph.lance_store.store import VersionAddress
from omnigraph.spark.column_types import spark_arrow_schema, spark_schema, to_spark_batches
from omnigraph.spark.failures import errors_for_spark
from omnigraph.spark.source.source_options import TableRequest
from omnigraph.values.conditions import Condition

if TYPE_CHECKING:
    from omnigraph.lance_store.store import Store
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.scoping.visible_rows import TableRule


@dataclass(frozen=True, slots=True)
class PinnedTable:
    """Everything that a worker needs to read one type at one commit. Pickles."""

    graph_commit_id: str
    entity: EntityType
    columns: tuple[str, ...]
    conditions: tuple[Condition, ...]
    target: VersionAddress
    groups: tuple[tuple[int, ...], ...]
    """The fragments of each task."""
    rule: TableRule | None = None
    """Which rows the reader sees; None: all."""

    def rows(self, fragments: Sequence[int]) -> Iterator[pa.Table]:
        """The wanted columns of the visible rows of these fragments, a batch at a time."""
        rule = self.rule
        if rule is None:
            yield from read_fragments(self.target, fragments, self.columns, self.conditions)
            return
        read = list(dict.fromkeys([*self.columns, *rule.columns]))
        conditions = (*self.conditions, *rule.conditions)
        for rows in read_fragments(self.target, fragments, read, conditions):
            yield rule.keep(rows).select(list(self.columns))


@dataclass(frozen=True, slots=True)
class FragmentGroup(InputPartition):
    """What one task reads."""

    fragments: tuple[int, ...]


class TableReader(DataSourceReader):
    """Reads fragments of one version. Writers may write, compact and branch at the same time."""

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
        with errors_for_spark():
            for rows in table.rows(partition.fragments):
                yield from to_spark_batches(rows, wanted)


class FilteredTableReader(TableReader):
    """Reads only rows that may pass the filters of its scan.

    Only for scans that have a reader of their own: sources in Python of Spark 4.3 have one for all
    scans of a `load()`.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        from omnigraph.spark.source.spark_filters import condition_of

        found = (condition_of(each, self._table.entity) for each in filters)
        added = tuple(condition for condition in found if condition is not None)
        self._table = replace(self._table, conditions=(*self._table.conditions, *added))
        return filters  # Spark evaluates all of them again


def table_fields(table: PinnedTable) -> Any:
    """The `StructType` of the wanted columns."""
    fields = {field.name: field for field in spark_schema(table.entity).fields}
    return StructType([fields[name] for name in table.columns])


def pin(request: TableRequest) -> PinnedTable:
    """The table that `request` means now. Later commits do not change it."""
    import omnigraph
    from omnigraph.spark.source.filter_text import parse_filter

    graph = omnigraph.open(request.uri, actor=request.actor, read_only=True, policy=request.policy)
    snapshot = graph.snapshot(request.branch, at=request.at)
    entity = snapshot.catalog.resolve(request.type_name)
    store = graph.engine.store
    at = snapshot.pin(entity.table_key).at
    return PinnedTable(
        graph_commit_id=snapshot.graph_commit_id,
        entity=entity,
        columns=_columns(entity, request.columns),
        conditions=parse_filter(request.filter_text, entity) if request.filter_text else (),
        target=store.address(at),
        groups=fragment_groups(store, at, request.rows_per_partition),
        rule=_rule(store, snapshot, entity),
    )


def _rule(store: Store, snapshot: Snapshot, entity: EntityType) -> TableRule | None:
    if snapshot.scope is None:
        return None
    from omnigraph.scoping.visible_rows import VisibleRows

    return VisibleRows(store, snapshot).rule(entity.table_key)


def _columns(entity: EntityType, wanted: tuple[str, ...] | None) -> tuple[str, ...]:
    known = tuple(spark_schema(entity).names)
    unknown = [name for name in wanted or () if name not in known]
    if unknown:
        raise InvalidArgument(
            f"{entity.name} has no {unknown[0]!r}; it has: {', '.join(known)}", property=unknown[0]
        )
    return wanted or known


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

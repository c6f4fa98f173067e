"""The edges of an Expand as pairs: start node, end node, and the edge's columns where needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from pyspark.sql import functions as F

from omnigraph.catalog.model import ID, SOURCE, TARGET, EdgeType, Unique
from omnigraph.ir.reads import Direction, EdgeStep
from omnigraph.spark.query.edge_counts import CountedHop
from omnigraph.spark.query.graph_tables import GraphTables
from omnigraph.spark.query.rows import EntityColumns, Frame, SparkColumn
from omnigraph.values.conditions import Condition

_numbers = count()


@dataclass(frozen=True, slots=True)
class End:
    """The columns of one end of a pair. `type` is None where all ends have one type."""

    types: tuple[str, ...]
    id: str
    type: str | None

    @property
    def columns(self) -> list[str]:
        return [self.id] if self.type is None else [self.id, self.type]

    def type_name(self) -> SparkColumn:
        return F.col(self.type) if self.type is not None else F.lit(self.types[0])

    def is_node(self, node: EntityColumns | End) -> SparkColumn:
        """Whether the node in other columns of the row is this end."""
        same: SparkColumn = F.col(self.id) == F.col(node.id)
        if self.type is None and node.type is None:
            return same if self.types == node.types else F.lit(False)
        return same & (self.type_name() == node.type_name())


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of ends; `extra` names further columns of each pair."""

    frame: Frame
    start: End
    end: End
    extra: tuple[str, ...] = ()
    at_most: int | None = None
    """An upper bound of the number of pairs; None when it is unknown."""

    @property
    def ends(self) -> list[str]:
        return [*self.start.columns, *self.end.columns]


@dataclass(frozen=True, slots=True)
class _Way:
    """One edge type, followed in one direction."""

    edge: EdgeType
    start_column: str
    end_column: str
    start_type: str
    end_type: str
    skip_loops: bool = False
    """True in the second half of an undirected step: the first half has the self-loops."""


@dataclass(frozen=True, slots=True)
class EdgePairs:
    """How to read the edges of some steps."""

    tables: GraphTables
    steps: tuple[EdgeStep, ...]
    edge: EntityColumns | None = None
    """The edge's columns, one row per edge; None: each pair of ends once."""
    conditions: Sequence[Condition] = field(default=())
    repeats: bool = False
    """A pair may come several times, once for each edge."""

    def between(self, starts: Sequence[str] | None, ends: Sequence[str] | None) -> Pairs:
        """Edges from a node of the types `starts` to one of the types `ends`; None: any type."""
        every = list(self._ways())
        ways = self._ways_between(starts, ends)
        number = next(_numbers)
        start = _end(f"s{number}", [way.start_type for way in ways], starts or ())
        end = _end(f"e{number}", [way.end_type for way in ways], ends or ())
        extra = tuple(self.edge.columns) if self.edge is not None else ()
        if not ways:
            nothing = self._one_way(every[0], start, end).where(F.lit(False))
            return Pairs(nothing, start, end, extra)
        frame = self.tables.union([self._one_way(way, start, end) for way in ways])
        is_once = len(ways) == 1 and _has_unique_ends(ways[0].edge)
        if self.edge is None and not is_once and not self.repeats:
            frame = self._once(frame, start, end)
        return Pairs(frame, start, end, extra, self.tables.rows_of(w.edge.table_key for w in ways))

    def degrees(self, starts: Sequence[str], ends: Sequence[str]) -> Pairs:
        """The starts of the pairs, each once, and how many pairs it has as the column `extra`."""
        pairs = self.between(starts, ends)
        degree = f"{pairs.start.id}_degree"
        counts = pairs.frame.groupBy(*pairs.start.columns).agg(F.count(F.lit(1)).alias(degree))
        return Pairs(counts, pairs.start, pairs.start, (degree,), pairs.at_most)

    def counted(self, starts: Sequence[str], ends: Sequence[str]) -> CountedHop | None:
        """The pairs as edges that are counted without rows of them; None where rows are needed."""
        ways = self._ways_between(starts, ends)
        scoped = self.tables.snapshot.scope is not None
        if len(ways) != 1 or ways[0].skip_loops or scoped or not self.tables.keys_are_hashed:
            return None
        (way,) = ways
        distinct = self.edge is None and not _has_unique_ends(way.edge)
        return CountedHop(way.edge, way.start_column, way.end_column, distinct)

    def _ways_between(self, starts: Sequence[str] | None, ends: Sequence[str] | None) -> list[_Way]:
        return [
            way
            for way in self._ways()
            if (starts is None or way.start_type in starts)
            and (ends is None or way.end_type in ends)
        ]

    def _ways(self) -> Iterator[_Way]:
        for step in self.steps:
            edge = self.tables.snapshot.catalog.edge_types[step.edge]
            if step.direction is not Direction.IN:
                yield _Way(edge, SOURCE, TARGET, edge.source, edge.target)
            if step.direction is not Direction.OUT:
                both_ways = step.direction is Direction.BOTH
                yield _Way(edge, TARGET, SOURCE, edge.target, edge.source, both_ways)

    def _one_way(self, way: _Way, start: End, end: End) -> Frame:
        bound = self.edge or EntityColumns((way.edge.name,), "", None, {})
        system = (SOURCE, TARGET) if self.edge is None else (ID, SOURCE, TARGET)
        table, columns = self.tables.columns_of(way.edge, bound, self.conditions, system)
        if way.skip_loops:
            table = table.where(F.col(SOURCE) != F.col(TARGET))
        kept = [F.col(way.start_column).alias(start.id), F.col(way.end_column).alias(end.id)]
        kept += [F.lit(way.start_type).alias(start.type)] if start.type is not None else []
        kept += [F.lit(way.end_type).alias(end.type)] if end.type is not None else []
        if self.edge is not None:
            kept.append(F.col(ID).alias(bound.id))
            kept += [F.lit(way.edge.name).alias(bound.type)] if bound.type is not None else []
        return table.select(*kept, *columns)

    def _once(self, frame: Frame, start: End, end: End) -> Frame:
        """Each pair once. Partitioned by start, because the join that follows is by start."""
        if not self.tables.in_one_task:
            frame = frame.repartition(F.col(start.id))
        return frame.dropDuplicates([*start.columns, *end.columns])


def _end(prefix: str, found: Sequence[str], allowed: Sequence[str]) -> End:
    """An end with a type column if there are several types."""
    types = tuple(dict.fromkeys(found)) or tuple(allowed)
    return End(types, f"{prefix}_id", f"{prefix}_type" if len(types) > 1 else None)


def _has_unique_ends(edge: EdgeType) -> bool:
    ends = {SOURCE, TARGET}
    return any(isinstance(c, Unique) and set(c.properties) <= ends for c in edge.constraints)

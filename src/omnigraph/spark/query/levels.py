"""Breadth-first search as joins: the rows of a level, joined with the edges, are the next one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

from pyspark.sql import functions as F

from omnigraph.execute.traversal.reach import HOP_CEILING, too_deep
from omnigraph.ir.reads import HopRange
from omnigraph.spark.query.compilation import Compilation
from omnigraph.spark.query.edge_pairs import EdgePairs, End, Pairs
from omnigraph.spark.query.graph_tables import GraphTables
from omnigraph.spark.query.rows import Bound, Frame, SparkColumn

Step = Callable[[Frame], Frame]

_numbers = count()


@dataclass(frozen=True, slots=True)
class Search:
    """The columns of a level: who searches (`origin`), where it is (`node`), and `extra`."""

    tables: GraphTables
    edges: Pairs
    origin: End
    node: End
    extra: tuple[str, ...] = ()

    @staticmethod
    def over(edges: EdgePairs, source: Bound, extra: Sequence[str] = ()) -> Search:
        pairs = edges.between(None, None)
        types = tuple(dict.fromkeys((*source.types, *pairs.start.types, *pairs.end.types)))
        prefix = f"l{next(_numbers)}"
        columns = tuple(f"{prefix}_{name}" for name in extra)
        several = len(types) > 1
        origin = End(types, f"{prefix}_origin", f"{prefix}_origin_type" if several else None)
        node = End(types, f"{prefix}_node", f"{prefix}_node_type" if several else None)
        return Search(edges.tables, pairs, origin, node, columns)

    @property
    def key(self) -> list[str]:
        return [*self.origin.columns, *self.node.columns]

    def begin(self, sources: Frame, source: Bound, *extra: SparkColumn) -> Frame:
        """Level 0: everybody at home."""
        columns = [
            *_as_end(self.origin, F.col(source.id), source.type_name()),
            *_as_end(self.node, F.col(source.id), source.type_name()),
            *self.named(extra),
        ]
        return sources.select(*columns)

    def step(self, level: Frame, *extra: SparkColumn) -> Frame:
        """Every edge from where the level is; `extra` over the columns of both."""
        met = level.join(self.edges.frame, self.edges.start.is_node(self.node))
        there = _as_end(self.node, F.col(self.edges.end.id), self.edges.end.type_name())
        return met.select(*self.origin.columns, *there, *self.named(extra))

    def at_home(self) -> SparkColumn:
        return self.node.is_node(self.origin)

    def without(self, level: Frame, visited: Frame | None) -> Frame:
        """What was not met before; home counts as met once the first hop is done."""
        if visited is None:
            return level
        return level.where(~self.at_home()).join(visited, on=self.key, how="left_anti")

    def pairs(self, levels: Sequence[Frame], ends: tuple[str, ...], *extra: str) -> Pairs:
        """Origin and node of all levels, where the node has one of the wanted types."""
        frame = self.tables.union([level.select(*self.key, *extra) for level in levels])
        wanted = F.col(self.node.type).isin(*ends) if self.node.type is not None else None
        if wanted is None and self.node.types[0] not in ends:
            wanted = F.lit(False)
        return Pairs(
            frame if wanted is None else frame.where(wanted), self.origin, self.node, extra
        )

    def named(self, extra: Sequence[SparkColumn]) -> list[SparkColumn]:
        return [column.alias(name) for name, column in zip(self.extra, extra, strict=True)]


def walk(
    hops: HopRange, compilation: Compilation, level: Frame, step: Step, onward: Step
) -> list[Frame]:
    """The levels of a range that were met: `step` makes the next one, `onward` what goes on."""
    found: list[Frame] = []
    deepest = HOP_CEILING if hops.maximum is None else hops.maximum
    for depth in range(1, deepest + 1):
        reached = step(level)
        if depth == hops.maximum:
            return [*found, reached]
        reached = compilation.keep(reached)
        if depth >= hops.minimum:
            found.append(reached)
        level = onward(reached)
        if level.isEmpty():
            return found or [level]
    raise too_deep()


def _as_end(end: End, node: SparkColumn, type_name: SparkColumn) -> list[SparkColumn]:
    return [node.alias(end.id), *([type_name.alias(end.type)] if end.type is not None else [])]

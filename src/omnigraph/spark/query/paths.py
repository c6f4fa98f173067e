"""Paths as values: every trail without a repeated edge, or one shortest path per pair."""

from __future__ import annotations

from pyspark.sql import functions as F

from omnigraph.ir.reads import Expand, ExpandMode
from omnigraph.spark.query.compilation import Compilation
from omnigraph.spark.query.edge_pairs import EdgePairs, Pairs
from omnigraph.spark.query.levels import Search, walk
from omnigraph.spark.query.rows import Bound, Frame, SparkColumn


def path_pairs(op: Expand, sources: Frame, source: Bound, compilation: Compilation) -> Pairs:
    """(source, end, the ids of nodes and edges in turn)."""
    find = _shortest if op.mode is ExpandMode.SHORTEST else _trails
    return find(op, sources, source, compilation)


def _trails(op: Expand, sources: Frame, source: Bound, compilation: Compilation) -> Pairs:
    search, edge = _search(op, source, compilation, "ids", "used")
    used = F.col(search.extra[1])
    # An edge is its type and its id; no type name has a blank.
    taken = F.concat_ws(" ", edge.type_name(), F.col(edge.id))
    level = search.begin(sources, source, F.array(F.col(source.id)), _no_texts())

    def step(level: Frame) -> Frame:
        unused = F.when(~F.array_contains(used, taken), F.array_append(used, taken))
        return search.step(level, _longer(search, edge), unused).where(used.isNotNull())

    found = walk(op.hops, compilation, level, step, lambda reached: reached)
    return search.pairs(found, op.target.types, search.extra[0])


def _shortest(op: Expand, sources: Frame, source: Bound, compilation: Compilation) -> Pairs:
    """Of equally short paths the one with the smallest ids."""
    search, edge = _search(op, source, compilation, "ids")
    (ids,) = search.extra
    level = search.begin(sources, source, F.array(F.col(source.id)))
    visited: Frame | None = None

    def step(level: Frame) -> Frame:
        longer = search.without(search.step(level, _longer(search, edge)), visited)
        return longer.groupBy(*search.key).agg(F.min(ids).alias(ids))

    def onward(reached: Frame) -> Frame:
        nonlocal visited
        met = reached.select(*search.key)
        visited = met if visited is None else visited.unionAll(met)
        return reached.where(~search.at_home())

    found = walk(op.hops, compilation, level, step, onward)
    return search.pairs(found, op.target.types, ids)


def _search(
    op: Expand, source: Bound, compilation: Compilation, *extra: str
) -> tuple[Search, Bound]:
    names = tuple(step.edge for step in op.steps)
    edge = Bound(names, "edge_id", "edge_type" if len(names) > 1 else None, {})
    edges = EdgePairs(compilation.tables, op.steps, edge)
    return Search.over(edges, source, extra), edge


def _longer(search: Search, edge: Bound) -> SparkColumn:
    step = F.array(F.col(edge.id), F.col(search.edges.end.id))
    return F.concat(F.col(search.extra[0]), step)


def _no_texts() -> SparkColumn:
    return F.array().cast("array<string>")

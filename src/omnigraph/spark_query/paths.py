"""Paths as values: every trail without a repeated edge, or one shortest path per pair."""

from __future__ import annotations

from pyspark.sql import functions as F

from omnigraph.ir.reads import Expand, ExpandMode
from omnigraph.spark_query.compilation import Compilation
from omnigraph.spark_query.edge_pairs import EdgePairs, Pairs
from omnigraph.spark_query.levels import Search, hop_limit, refuse_unfinished
from omnigraph.spark_query.rows import Bound, Frame, SparkColumn


def path_pairs(op: Expand, sources: Frame, source: Bound, compilation: Compilation) -> Pairs:
    """(source, end, the ids of nodes and edges in turn)."""
    walk = _shortest if op.mode is ExpandMode.SHORTEST else _trails
    return walk(op, sources, source, compilation)


def _trails(op: Expand, sources: Frame, source: Bound, compilation: Compilation) -> Pairs:
    search, edge = _search(op, source, compilation, "ids", "used")
    used = F.col(search.extra[1])
    # An edge is its type and its id; no type name has a blank.
    taken = F.concat_ws(" ", edge.type_name(), F.col(edge.id))
    level = search.begin(sources, source, F.array(F.col(source.id)), _no_texts())
    found: list[Frame] = []
    for depth in range(1, hop_limit(op.hops) + 1):
        longer = search.step(
            level,
            _longer(search, edge),
            F.when(~F.array_contains(used, taken), F.array_append(used, taken)),
        )
        level = longer.where(used.isNotNull())
        if depth == op.hops.maximum:
            found.append(level)
            break
        level = compilation.keep(level)
        if depth >= op.hops.minimum:
            found.append(level)
        if level.isEmpty():
            break
    else:
        refuse_unfinished(op.hops)
    return search.pairs(found or [level], op.target.types, search.extra[0])


def _shortest(op: Expand, sources: Frame, source: Bound, compilation: Compilation) -> Pairs:
    """Of equally short paths the one with the smallest ids."""
    search, edge = _search(op, source, compilation, "ids")
    (ids,) = search.extra
    level = search.begin(sources, source, F.array(F.col(source.id)))
    visited: Frame | None = None
    found: list[Frame] = []
    for depth in range(1, hop_limit(op.hops) + 1):
        longer = search.step(level, _longer(search, edge))
        reached = search.without(longer, visited).groupBy(*search.key).agg(F.min(ids).alias(ids))
        if depth == op.hops.maximum:
            found.append(reached)
            break
        reached = compilation.keep(reached)
        if depth >= op.hops.minimum:
            found.append(reached)
        level = reached.where(~search.at_home())
        if level.isEmpty():
            break
        met = reached.select(*search.key)
        visited = met if visited is None else visited.unionAll(met)
    else:
        refuse_unfinished(op.hops)
    return search.pairs(found or [level], op.target.types, ids)


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

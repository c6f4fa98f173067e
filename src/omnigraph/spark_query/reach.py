"""Reachability within a range of hops: one join per hop, each node at most once per source."""

from __future__ import annotations

from omnigraph.ir.reads import Expand
from omnigraph.spark_query.compilation import Compilation
from omnigraph.spark_query.edge_pairs import EdgePairs, Pairs
from omnigraph.spark_query.levels import Search, hop_limit, refuse_unfinished
from omnigraph.spark_query.rows import Bound, Frame


def reached_pairs(op: Expand, sources: Frame, source: Bound, compilation: Compilation) -> Pairs:
    """(source, node first met after `minimum` to `maximum` hops)."""
    search = Search.over(EdgePairs(compilation.tables, op.steps), source)
    frontier = search.begin(sources, source)
    visited: Frame | None = None
    found: list[Frame] = []
    for depth in range(1, hop_limit(op.hops) + 1):
        reached = search.without(search.step(frontier).distinct(), visited)
        if depth == op.hops.maximum:
            found.append(reached)
            break
        reached = compilation.keep(reached)
        if depth >= op.hops.minimum:
            found.append(reached)
        # No cycle leads back home, only its own self-loop, as one hop.
        frontier = reached.where(~search.at_home())
        if frontier.isEmpty():
            break
        visited = reached if visited is None else visited.unionAll(reached)
    else:
        refuse_unfinished(op.hops)
    return search.pairs(found or [frontier], op.target.types)

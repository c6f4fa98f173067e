"""Reachability within a range of hops: one join per hop, each node at most once per source."""

from __future__ import annotations

from omnigraph.ir.reads import Expand
from omnigraph.spark.query.compilation import Compilation
from omnigraph.spark.query.edge_pairs import EdgePairs, Pairs
from omnigraph.spark.query.levels import Search, walk
from omnigraph.spark.query.rows import Bound, Frame


def reached_pairs(op: Expand, sources: Frame, source: Bound, compilation: Compilation) -> Pairs:
    """(source, node first met after `minimum` to `maximum` hops)."""
    search = Search.over(EdgePairs(compilation.tables, op.steps), source)
    visited: Frame | None = None

    def step(level: Frame) -> Frame:
        return search.without(search.step(level).distinct(), visited)

    def onward(reached: Frame) -> Frame:
        nonlocal visited
        visited = reached if visited is None else visited.unionAll(reached)
        # No cycle leads back home, only its own self-loop, as one hop.
        return reached.where(~search.at_home())

    found = walk(op.hops, compilation, search.begin(sources, source), step, onward)
    return search.pairs(found, op.target.types)

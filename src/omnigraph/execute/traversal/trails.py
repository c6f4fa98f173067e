"""Paths as values: every trail without a repeated edge, or one shortest path per pair."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from omnigraph.errors import ResourceLimit
from omnigraph.execute.limits import QueryLimits
from omnigraph.execute.traversal.reach import HOP_CEILING, too_deep
from omnigraph.execute.traversal.route import Route, lift, local_positions
from omnigraph.execute.views.entity_view import MISSING
from omnigraph.execute.views.frame import PATHS, Binding, Frame, PathBinding
from omnigraph.execute.views.partial_view import settled
from omnigraph.ir.reads import ExpandMode
from omnigraph.values.identifiers import edge_table, node_table

# Enumerating paths is exponential by nature; beyond this the query wants `{m,n}` without a path.
_PATH_CEILING = 1_000_000

# An id in a path is a Python string: about so many words of memory.
_ID_WORDS = 8

_Node = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Path:
    node: _Node
    ids: tuple[str, ...]
    edges: frozenset[tuple[str, int]]
    length: int


class _Walker:
    """Neighbours of single nodes, smallest ids first."""

    def __init__(self, route: Route, limits: QueryLimits) -> None:
        self._ways = route.ways
        self._views = route.views
        self._limits = limits

    def node_id(self, node: _Node) -> str:
        ids = self._views.table(node_table(node[0])).ids
        return str(ids[node[1]].as_py())

    def steps(self, node: _Node) -> list[tuple[str, tuple[str, int], _Node]]:
        """(edge id, edge, node) of everything one hop away, by node id, then edge id."""
        self._limits.check()
        found = []
        for way in self._ways:
            if way.source_type != node[0]:
                continue
            near = way.neighbours
            start, end = near.offsets[node[1]], near.offsets[node[1] + 1]
            edge_ids = self._views.table(edge_table(way.edge)).ids
            for entry in range(int(start), int(end)):
                target = int(near.nodes[entry])
                edge = int(near.edges[entry])
                if way.skip_loops and target == node[1]:
                    continue
                there = (way.target_type, target)
                found.append((str(edge_ids[edge].as_py()), (way.edge, edge), there))
        return sorted(found, key=lambda f: (self.node_id(f[2]), f[2][0], f[0], f[1][0]))


def expand_paths(route: Route, frame: Frame, limits: QueryLimits) -> Frame:
    op, target_view = route.op, route.target_view
    frame = settled(frame, op.source.id, op.target.id)
    source = frame.bindings[op.source.id]
    walker = _Walker(route, limits)
    ceiling = op.hops.maximum if op.hops.maximum is not None else HOP_CEILING
    rows, nodes, paths = [], [], []
    held = 0
    for row, start in _starts(source, route):
        walk = _shortest if op.mode is ExpandMode.SHORTEST else _trails
        for path in walk(walker, start, ceiling):
            if op.hops.maximum is None and path.length == HOP_CEILING:
                raise too_deep()
            if path.length < op.hops.minimum or path.node[0] not in target_view.types:
                continue
            rows.append(row)
            local = np.array([path.node[1]], np.int32)
            nodes.append(int(lift(target_view, path.node[0], local)[0]))
            paths.append(path.ids)
            held += len(path.ids)
            limits.reserve(held, _ID_WORDS)
            if len(rows) > _PATH_CEILING:
                raise ResourceLimit(
                    f"more than {_PATH_CEILING} paths; bound the range or leave the path out",
                    limit="paths",
                    ceiling=_PATH_CEILING,
                )
    index, met = np.array(rows, np.int64), np.array(nodes, np.int32)
    if op.target_bound:
        fits = np.flatnonzero(met == frame.bindings[op.target.id].positions[index])
        index, paths = index[fits], [paths[i] for i in fits]
        result = frame.take(index, ordered=True)
    else:
        result = frame.take(index, ordered=True).bind(op.target.id, Binding(target_view, met))
    if op.path is None:
        return result
    return replace(
        result,
        paths={**result.paths, op.path.id: PathBinding(pa.array(paths, PATHS))},
        sorted_by=(),
    )


def _starts(source: Binding, route: Route) -> Iterator[tuple[int, _Node]]:
    starts = []
    for name in sorted({way.source_type for way in route.ways}):
        rows, positions = local_positions(source, name)
        numbered = range(len(positions)) if rows is None else rows
        starts += [(int(r), (name, int(p))) for r, p in zip(numbered, positions, strict=True)]
    yield from sorted(start for start in starts if start[1][1] != MISSING)


def _trails(walker: _Walker, start: _Node, ceiling: int) -> Iterator[_Path]:
    stack = [_Path(start, (walker.node_id(start),), frozenset(), 0)]
    while stack:
        path = stack.pop()
        if path.length:
            yield path
        if path.length < ceiling:
            stack += [
                _Path(
                    node,
                    (*path.ids, edge_id, walker.node_id(node)),
                    path.edges | {edge},
                    path.length + 1,
                )
                for edge_id, edge, node in reversed(walker.steps(path.node))
                if edge not in path.edges
            ]


def _shortest(walker: _Walker, start: _Node, ceiling: int) -> Iterator[_Path]:
    """Breadth first: of equally short paths the one with the smallest ids."""
    best: dict[_Node, _Path] = {}
    level = deque([_Path(start, (walker.node_id(start),), frozenset(), 0)])
    depth = 0
    while level and depth < ceiling:
        depth += 1
        reached: dict[_Node, _Path] = {}
        for path in level:
            for edge_id, edge, node in walker.steps(path.node):
                # The start is at distance 0: only its own self-loop leads back to it.
                if node in best or (node == start and depth > 1):
                    continue
                longer = _Path(
                    node, (*path.ids, edge_id, walker.node_id(node)), path.edges | {edge}, depth
                )
                if node not in reached or longer.ids < reached[node].ids:
                    reached[node] = longer
        best |= reached
        level = deque(p for n, p in reached.items() if n != start)
        yield from reached.values()

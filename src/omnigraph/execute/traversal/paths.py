"""Several hops along edges: the nodes within a range of hops, and paths.

`expand_reach` finds each node once, breadth first. `expand_paths` gives the paths themselves: every
trail without a repeated edge, or one shortest path for each pair of nodes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.errors import ResourceLimit
from omnigraph.execute.limits import QueryLimits
from omnigraph.execute.topology import kernels
from omnigraph.execute.topology.id_changes import MISSING, Positions
from omnigraph.execute.traversal.expand import Hop, Route, lift, local_positions
from omnigraph.execute.views.frame import PATHS, Binding, Frame, PathBinding, settled
from omnigraph.ir.reads import Expand, ExpandMode
from omnigraph.values.identifiers import edge_table, node_table

# An unbounded range that still finds new nodes after this many hops is an error.
HOP_CEILING = 1000
# A search checks the limits after this many sources.
_SOURCES_AT_ONCE = 256
# The number of paths can be exponential. With more of them the query should not return the path.
_PATH_CEILING = 1_000_000
# An id in a path is a Python string of about this many words.
_ID_WORDS = 8
_NONE = np.empty(0, np.int32)


def expand_reach(route: Route, frame: Frame, limits: QueryLimits) -> Frame:
    """The nodes within a range of hops. Rows with equal sources share one search."""
    op = route.op
    frame = settled(frame, op.source.id, op.target.id)
    source = frame.bindings[op.source.id]
    distinct, inverse = np.unique(source.positions, return_inverse=True)
    found = _reach_all(route, Binding(source.view, distinct, source.optional), limits)
    counts = np.array([len(f) for f in found], np.int64)
    limits.reserve(int(counts[inverse].sum()), len(frame.bindings) + 1)
    rows = np.repeat(np.arange(frame.length), counts[inverse])
    nodes = np.concatenate([found[i] for i in inverse]) if frame.length else _NONE
    if op.target_bound:
        met = nodes == frame.bindings[op.target.id].positions[rows]
        return frame.take(rows[met], ordered=True)
    view = route.target_view
    ascends = frame.sorted_by and view.ranks is None
    return replace(
        frame.take(rows, ordered=True).bind(op.target.id, Binding(view, nodes)),
        sorted_by=(*frame.sorted_by, op.target.id) if ascends else (),
    )


def _reach_all(route: Route, sources: Binding, limits: QueryLimits) -> list[Positions]:
    """The nodes that each source reaches, ascending.

    The compiled search is used when one edge type connects nodes of one type.
    """
    ways = route.ways
    compiled = kernels.compiled_reach()
    way = ways[0]
    simple = len(ways) == 1 and way.source_type == way.target_type
    found = [_NONE] * len(sources.positions)
    bound = np.flatnonzero(sources.positions != MISSING)
    held = 0
    if compiled is None or not simple or sources.view.types != (way.source_type,):
        for index in bound.tolist():
            one = Binding(sources.view, sources.positions[index : index + 1])
            found[index] = _reach(route, one, limits)
            held += len(found[index])
            limits.reserve(held, 0)
        return found
    for part in np.array_split(bound, max(1, -(-len(bound) // _SOURCES_AT_ONCE))):
        for index, nodes in zip(
            part, _compiled(route.op, way, sources, part, compiled), strict=True
        ):
            found[index] = lift(route.target_view, way.target_type, nodes)
            held += len(nodes)
        limits.reserve(held, 0)
    return found


def _compiled(op: Expand, way: Hop, sources: Binding, bound: Any, search: Any) -> list[Positions]:
    near = way.neighbours
    maximum = HOP_CEILING if op.hops.maximum is None else op.hops.maximum
    counts, nodes, unfinished = search(
        near.offsets, near.nodes, sources.positions[bound], op.hops.minimum, maximum
    )
    if unfinished and op.hops.maximum is None:
        raise too_deep()
    parts: list[Positions] = np.split(nodes, np.cumsum(counts)[:-1])
    return parts[: len(bound)]


def _reach(route: Route, source: Binding, limits: QueryLimits) -> Positions:
    """Nodes at a distance of `minimum` to `maximum` hops, ascending, in the target view.

    The source is at distance 0, so no cycle leads back to it. Only a self-loop does, as one hop.
    """
    op, ways, target_view = route.op, route.ways, route.target_view
    frontier = {way.source_type: local_positions(source, way.source_type)[1] for way in ways}
    start = {name: nodes for name, nodes in frontier.items() if len(nodes)}
    visited: dict[str, Any] = {}
    met: list[Positions] = []
    for depth in range(1, (op.hops.maximum or HOP_CEILING) + 1):
        limits.check()
        reached = _step(ways, frontier)
        frontier = {}
        for name, nodes in reached.items():
            count = route.views.table(node_table(name)).count
            seen = visited.setdefault(name, np.zeros(count, bool))
            if depth > 1 and name in start:
                seen[start[name]] = True
            fresh = nodes[~seen[nodes]]
            seen[fresh] = True
            if depth >= op.hops.minimum and name in target_view.types:
                met.append(lift(target_view, name, fresh))
            frontier[name] = np.setdiff1d(fresh, start[name]) if name in start else fresh
        if not any(len(nodes) for nodes in frontier.values()):
            break
    else:
        if op.hops.maximum is None:
            raise too_deep()
    return np.sort(np.concatenate(met)) if met else _NONE


def _step(ways: Sequence[Hop], frontier: dict[str, Positions]) -> dict[str, Positions]:
    reached: dict[str, list[Positions]] = {}
    for way in ways:
        nodes = frontier.get(way.source_type)
        if nodes is None or len(nodes) == 0:
            continue
        _, met, _ = way.neighbours.follow(nodes)
        reached.setdefault(way.target_type, []).append(met)
    return {name: np.unique(np.concatenate(parts)) for name, parts in reached.items()}


def too_deep() -> ResourceLimit:
    return ResourceLimit(
        f"an unbounded range still found new nodes after {HOP_CEILING} hops; "
        "give it an upper bound",
        limit="hops",
        ceiling=HOP_CEILING,
    )


_NodeAt = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Trail:
    node: _NodeAt
    ids: tuple[str, ...]
    edges: frozenset[tuple[str, int]]
    length: int


class _Walker:
    """The neighbours of one node, smallest ids first."""

    def __init__(self, route: Route, limits: QueryLimits) -> None:
        self._ways = route.ways
        self._views = route.views
        self._limits = limits

    def node_id(self, node: _NodeAt) -> str:
        ids = self._views.table(node_table(node[0])).ids
        return str(ids[node[1]].as_py())

    def steps(self, node: _NodeAt) -> list[tuple[str, tuple[str, int], _NodeAt]]:
        """(edge id, edge, node) of each neighbour, sorted by node id, then edge id."""
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
                    f"the query finds more than {_PATH_CEILING} paths; give the range an "
                    "upper bound, or do not bind the path",
                    limit="paths",
                    rows=len(rows),
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


def _starts(source: Binding, route: Route) -> Iterator[tuple[int, _NodeAt]]:
    starts = []
    for name in sorted({way.source_type for way in route.ways}):
        rows, positions = local_positions(source, name)
        numbered = range(len(positions)) if rows is None else rows
        starts += [(int(r), (name, int(p))) for r, p in zip(numbered, positions, strict=True)]
    yield from sorted(start for start in starts if start[1][1] != MISSING)


def _trails(walker: _Walker, start: _NodeAt, ceiling: int) -> Iterator[_Trail]:
    stack = [_Trail(start, (walker.node_id(start),), frozenset(), 0)]
    while stack:
        path = stack.pop()
        if path.length:
            yield path
        if path.length < ceiling:
            stack += [
                _Trail(
                    node,
                    (*path.ids, edge_id, walker.node_id(node)),
                    path.edges | {edge},
                    path.length + 1,
                )
                for edge_id, edge, node in reversed(walker.steps(path.node))
                if edge not in path.edges
            ]


def _shortest(walker: _Walker, start: _NodeAt, ceiling: int) -> Iterator[_Trail]:
    """Breadth first. Of equally short paths it takes the one with the smallest ids."""
    best: dict[_NodeAt, _Trail] = {}
    level = deque([_Trail(start, (walker.node_id(start),), frozenset(), 0)])
    depth = 0
    while level and depth < ceiling:
        depth += 1
        reached: dict[_NodeAt, _Trail] = {}
        for path in level:
            for edge_id, edge, node in walker.steps(path.node):
                # The start is at distance 0, so only a self-loop leads back to it.
                if node in best or (node == start and depth > 1):
                    continue
                longer = _Trail(
                    node, (*path.ids, edge_id, walker.node_id(node)), path.edges | {edge}, depth
                )
                if node not in reached or longer.ids < reached[node].ids:
                    reached[node] = longer
        best |= reached
        level = deque(p for n, p in reached.items() if n != start)
        yield from reached.values()

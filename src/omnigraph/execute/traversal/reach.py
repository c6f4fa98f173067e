"""Reachability within a range of hops: breadth first per source, each node at most once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from omnigraph.errors import ResourceLimit
from omnigraph.execute.limits import QueryLimits
from omnigraph.execute.topology import kernels
from omnigraph.execute.traversal.route import Hop, Route, lift, local_positions
from omnigraph.execute.views.entity_view import MISSING, Positions
from omnigraph.execute.views.frame import Binding, Frame
from omnigraph.execute.views.partial_view import settled
from omnigraph.ir.reads import Expand
from omnigraph.values.identifiers import node_table

# An unbounded range that is still finding nodes after this many hops is an error, not an answer.
HOP_CEILING = 1000

# Between so many sources a search looks whether it may go on.
_SOURCES_AT_ONCE = 256

_NONE = np.empty(0, np.int32)


def expand_reach(route: Route, frame: Frame, limits: QueryLimits) -> Frame:
    """Rows with equal sources share one search."""
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
    """What each source reaches, ascending; compiled where one edge type leads back to one type."""
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
    """Nodes first met after `minimum` to `maximum` hops, ascending, in the target's view.

    The source is at distance 0: no cycle leads back to it, only its own self-loop, as one hop.
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
        f"an unbounded range was still finding nodes after {HOP_CEILING} hops; "
        "give it an upper bound",
        limit="hops",
        ceiling=HOP_CEILING,
    )

"""Follow edges: one row per edge, or one row per pair of ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.errors import ResourceLimit
from omnigraph.execute.limits import QueryLimits
from omnigraph.execute.topology import kernels
from omnigraph.execute.topology.neighbours import Neighbours
from omnigraph.execute.traversal.route import Hop, Route, lift, local_positions
from omnigraph.execute.views.entity_view import EntityView, Positions
from omnigraph.execute.views.frame import Binding, Frame, Index, join_frames
from omnigraph.execute.views.partial_view import settled
from omnigraph.ir.reads import Expand

# So few rows are followed without counting beforehand what comes of them.
_ASK_FIRST = 1000
# So many new rows are made in one go; more in parts, with a look at the limits in between.
_AT_ONCE = 32_000_000

# As far as 64-bit sums go, less what a float may be off.
_MOST_ROWS = 2**62

Mask = npt.NDArray[np.bool_]
Weights = npt.NDArray[np.int64]
Judge = Callable[[EntityView, Positions, EntityView | None, Positions | None], Mask]
"""(target view, nodes met, edge view, edges taken) -> which of them are wanted."""


@dataclass(slots=True)
class Found:
    """Matches of a hop: the frame row, the node met (in the target's view) and the edge taken."""

    rows: Index
    nodes: Positions
    edges: Positions
    hop: Hop


def expand_edges(
    route: Route, frame: Frame, limits: QueryLimits, judge: Judge | None = None
) -> Frame:
    """One row per pair of ends, or per edge when the edge is bound.

    A bound target must be the node met. `judge` says which edges and ends are wanted at all.
    """
    op = route.op
    frame = settled(frame, op.source.id, op.target.id)
    columns = len(frame.bindings) + 1
    if op.target_bound or frame.length <= _ASK_FIRST:
        found = _expand(route, frame, judge)
        if found.length > _ASK_FIRST:
            limits.reserve(found.length, columns)
        return found
    most = sum(frame.length * way.neighbours.largest for way in route.ways)
    if most <= _AT_ONCE and limits.fits(most, columns):
        return _expand(route, frame, judge)
    totals = np.cumsum(count_edges(route, frame))
    total = int(totals[-1])
    if judge is None:
        limits.reserve(total, columns)
    if total <= _AT_ONCE:
        return _expand(route, frame, judge)
    return _expand_in_parts(route, frame, limits, judge, totals)


def _expand_in_parts(
    route: Route,
    frame: Frame,
    limits: QueryLimits,
    judge: Judge | None,
    totals: npt.NDArray[np.int64],
) -> Frame:
    """Some sources at a time: the limits are looked at, and what is judged away takes no room."""
    edges = np.searchsorted(totals, np.arange(_AT_ONCE, int(totals[-1]), _AT_ONCE))
    bounds = np.unique(np.concatenate([[0], edges, [frame.length]]))
    parts: list[Frame] = []
    made = 0
    for start, end in pairwise(bounds.tolist()):
        limits.check()
        parts.append(_expand(route, frame.take(np.arange(start, end), ordered=True), judge))
        made += parts[-1].length
        limits.reserve(made, len(frame.bindings) + 1)
    return join_frames(parts)


def _expand(route: Route, frame: Frame, judge: Judge | None) -> Frame:
    op, target_view, edge_view = route.op, route.target_view, route.edge_view
    source = frame.bindings[op.source.id]
    if op.target_bound:
        wanted = frame.bindings[op.target.id]
        met = [_meet(hop, source, wanted) for hop in route.ways]
    else:
        met = [_follow(hop, source, target_view) for hop in route.ways]
    rows = _joined([found.rows for found in met])
    nodes = _joined([found.nodes for found in met])
    edges: Positions | None = None
    if edge_view is not None:
        edges = _joined([lift(edge_view, found.hop.edge, found.edges) for found in met])
    if judge is not None:
        good = judge(target_view, nodes, edge_view, edges)
        rows, nodes = rows[good], nodes[good]
        edges = None if edges is None else edges[good]
    if len(met) > 1:
        order = np.lexsort((nodes, rows))
        if edges is None:
            # Several ways to one node are one pair of ends.
            order = order[_first_of_runs(rows[order], nodes[order])]
        rows, nodes = rows[order], nodes[order]
        edges = None if edges is None else edges[order]
    edge = None if edges is None or edge_view is None else Binding(edge_view, edges)
    return with_ends(op, frame, rows, Binding(target_view, nodes), edge)


def with_ends(
    op: Expand, frame: Frame, rows: Index, target: Binding, edge: Binding | None
) -> Frame:
    """These rows of the frame with the node and the edge that each of them met."""
    result = frame.take(rows, ordered=True)
    if op.target_bound and edge is None:
        return result
    bindings = dict(result.bindings)
    sorted_by = frame.sorted_by
    if not op.target_bound:
        bindings[op.target.id] = target
        ascends = sorted_by and target.view.ranks is None and edge is None
        sorted_by = (*sorted_by, op.target.id) if ascends else ()
    if edge is not None:
        assert op.edge is not None
        bindings[op.edge.id] = edge
        sorted_by = ()
    result.bindings, result.sorted_by = bindings, sorted_by
    return result


def _joined(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def weigh_edges(route: Route, frame: Frame) -> Frame:
    """Each row once, for as many rows as it has edges; none is a weight of zero."""
    counts = count_edges(route, frame)
    if frame.weights is not None:
        _check_weights(frame.weights, counts)
        counts = frame.weights * counts
    return replace(frame, weights=counts)


def _check_weights(weights: Weights, counts: Weights) -> None:
    """Whatever adds them up later stays within 64 bits."""
    if not len(counts) or int(weights.max()) * int(counts.max()) * len(counts) <= _MOST_ROWS:
        return
    if float(np.dot(weights.astype(np.float64), counts.astype(np.float64))) > _MOST_ROWS:
        raise ResourceLimit(
            "the pattern matches more rows than a 64-bit number can count; narrow it",
            limit="rows",
        )


def count_edges(route: Route, frame: Frame) -> Weights:
    """How many rows `expand_edges` would make of each row, without making them.

    An upper bound where several ways may lead to one node; the planner asks for single ways only.
    """
    source_id = route.op.source.id
    source = settled(frame, source_id).bindings[source_id]
    counts = np.zeros(frame.length, np.int64)
    for hop in route.ways:
        rows, positions = local_positions(source, hop.source_type)
        near = hop.neighbours
        everybody = positions is source.view.all_positions
        degrees = np.diff(near.offsets) if everybody else near.degrees(positions)
        if hop.skip_loops:
            degrees = degrees - _loops(near)[positions]
        if rows is None:
            counts += degrees
        else:
            counts[rows] += degrees
    return counts


def _first_of_runs(rows: Index, nodes: Positions) -> npt.NDArray[np.bool_]:
    first = np.ones(len(rows), bool)
    first[1:] = (np.diff(rows) != 0) | (np.diff(nodes) != 0)
    return first


def _follow(hop: Hop, source: Binding, target_view: EntityView) -> Found:
    rows, positions = local_positions(source, hop.source_type)
    if hop.target_type not in target_view.types:
        rows, positions = None, positions[:0]
    near = hop.neighbours
    if positions is source.view.all_positions:
        taken, nodes, edges = kernels.follow_all(near.offsets, near.nodes, near.edges)
    else:
        taken, nodes, edges = near.follow(positions)
    at = taken if rows is None else rows[taken]
    found = Found(at, lift(target_view, hop.target_type, nodes), edges, hop)
    if hop.skip_loops:
        found = _only(found, nodes != positions[taken])
    return found


def _meet(hop: Hop, source: Binding, wanted: Binding) -> Found:
    """Only edges to the node that the row has already."""
    from_rows, sources = local_positions(source, hop.source_type)
    to_rows, targets = local_positions(wanted, hop.target_type)
    rows: Index | None = None
    if from_rows is not None or to_rows is not None:
        everything = np.arange(len(source.positions))
        rows, first, second = np.intersect1d(
            everything if from_rows is None else from_rows,
            everything if to_rows is None else to_rows,
            assume_unique=True,
            return_indices=True,
        )
        sources, targets = sources[first], targets[second]
    taken, edges = hop.neighbours.meet(sources, targets)
    at = taken if rows is None else rows[taken]
    found = Found(at, wanted.positions[at], edges, hop)
    return _only(found, sources[taken] != targets[taken]) if hop.skip_loops else found


def _only(found: Found, mask: npt.NDArray[np.bool_]) -> Found:
    return Found(found.rows[mask], found.nodes[mask], found.edges[mask], found.hop)


def _loops(neighbours: Neighbours) -> npt.NDArray[np.int64]:
    count = len(neighbours.offsets) - 1
    sources = np.repeat(np.arange(count), np.diff(neighbours.offsets))
    return np.bincount(sources[sources == neighbours.nodes], minlength=count)

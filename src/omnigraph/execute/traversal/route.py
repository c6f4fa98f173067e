"""Where an Expand leads: the views and neighbours it needs of one snapshot, looked up once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from omnigraph.execute.topology.adjacency import Adjacency
from omnigraph.execute.topology.neighbours import Neighbours
from omnigraph.execute.views.entity_view import MISSING, EntityView, Positions, UnionView
from omnigraph.execute.views.frame import Binding, Index
from omnigraph.execute.views.snapshot_views import SnapshotViews
from omnigraph.ir.reads import Direction, EdgeStep, Expand, ExpandMode


@dataclass(frozen=True, slots=True)
class Hop:
    """One way to follow one edge type: whose neighbours, between which node types."""

    edge: str
    adjacency: Adjacency
    outward: bool
    per_edge: bool
    """Every edge, or each pair of ends once."""
    source_type: str
    target_type: str
    skip_loops: bool = False
    """The second half of an undirected hop: a self-loop was seen in the first."""

    @property
    def neighbours(self) -> Neighbours:
        """Asked for by every run: memory may have been given back in between."""
        near = self.adjacency.out if self.outward else self.adjacency.into
        return near if self.per_edge else near.pairs


@dataclass(frozen=True, slots=True)
class Route:
    """An Expand on one snapshot."""

    op: Expand
    views: SnapshotViews
    ways: tuple[Hop, ...]
    target_view: EntityView
    edge_view: EntityView | None


def route_of(op: Expand, views: SnapshotViews) -> Route:
    paths = op.mode in (ExpandMode.TRAILS, ExpandMode.SHORTEST)
    ways = _hops(op.steps, views, per_edge=paths or op.edge is not None)
    edge_view = None if op.edge is None else views.of(op.edge)
    return Route(op, views, ways, views.of(op.target), edge_view)


def _hops(steps: tuple[EdgeStep, ...], views: SnapshotViews, *, per_edge: bool) -> tuple[Hop, ...]:
    found = []
    for step in steps:
        edge = views.catalog.edge_types[step.edge]
        adjacency = views.adjacency(step.edge)
        ends = (edge.source, edge.target)
        if step.direction is not Direction.IN:
            found.append(Hop(step.edge, adjacency, True, per_edge, *ends))
        if step.direction is not Direction.OUT:
            both = step.direction is Direction.BOTH
            found.append(Hop(step.edge, adjacency, False, per_edge, *ends[::-1], both))
    return tuple(found)


def local_positions(binding: Binding, type_name: str) -> tuple[Index | None, Positions]:
    """(rows bound to this type, None for all of them; their positions in the type's own table)."""
    positions, view = binding.positions, binding.view
    if isinstance(view, UnionView):
        if type_name not in view.types:
            return np.empty(0, np.int64), np.empty(0, np.int32)
        low, high = _span(view, type_name)
        rows = np.flatnonzero((positions >= low) & (positions < high))
        return rows, (positions[rows] - low).astype(np.int32)
    if view.types[0] != type_name:
        return np.empty(0, np.int64), np.empty(0, np.int32)
    if not binding.optional:
        return None, positions
    rows = np.flatnonzero(positions != MISSING)
    return rows, positions[rows]


def lift(view: EntityView, type_name: str, positions: Positions) -> Positions:
    """Positions of one type's table as positions of a view that holds it."""
    if isinstance(view, UnionView):
        return (positions + _span(view, type_name)[0]).astype(np.int32)
    return positions


def _span(view: UnionView, type_name: str) -> tuple[int, int]:
    index = view.types.index(type_name)
    return int(view.offsets[index]), int(view.offsets[index + 1])

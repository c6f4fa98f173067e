"""Reachability within a range of hops: breadth first per source, each node at most once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from omnigraph.errors import ResourceLimit
from omnigraph.execute.local import kernels
from omnigraph.execute.local.entity_view import MISSING, Positions
from omnigraph.execute.local.expand import Hop, hops, lift, local_positions
from omnigraph.execute.local.frame import Binding, Frame
from omnigraph.execute.local.views import SnapshotViews
from omnigraph.ir.reads import Expand
from omnigraph.values.identifiers import node_table

# An unbounded range that is still finding nodes after this many hops is an error, not an answer.
HOP_CEILING = 1000


def expand_reach(op: Expand, frame: Frame, views: SnapshotViews) -> Frame:
    """Rows with equal sources share one search."""
    source = frame.bindings[op.source.id]
    distinct, inverse = np.unique(source.positions, return_inverse=True)
    found = [
        _reach(op, Binding(source.view, np.array([p], np.int32)), views)
        if p != MISSING
        else np.empty(0, np.int32)
        for p in distinct
    ]
    counts = np.array([len(f) for f in found], np.int64)
    per_row = counts[inverse]
    rows = np.repeat(np.arange(frame.length), per_row)
    nodes = np.concatenate([found[i] for i in inverse]) if frame.length else np.empty(0, np.int32)
    if op.target_bound:
        met = nodes == frame.bindings[op.target.id].positions[rows]
        return frame.take(rows[met], ordered=True)
    view = views.of(op.target)
    ascends = frame.sorted_by and view.ranks is None
    return replace(
        frame.take(rows, ordered=True).bind(op.target.id, Binding(view, nodes)),
        sorted_by=(*frame.sorted_by, op.target.id) if ascends else (),
    )


def _reach(op: Expand, source: Binding, views: SnapshotViews) -> Positions:
    """Nodes first met after `minimum` to `maximum` hops, ascending, in the target's view.

    The source was expanded at the start, so meeting it again emits it and goes no further.
    """
    target_view = views.of(op.target)
    ways = hops(op.steps, views)
    frontier: dict[str, Positions] = {
        way.source_type: local_positions(source, way.source_type)[1] for way in ways
    }
    visited: dict[str, np.ndarray] = {}
    expanded_source = {name: nodes for name, nodes in frontier.items() if len(nodes)}
    met: list[Positions] = []
    ceiling = op.hops.maximum if op.hops.maximum is not None else HOP_CEILING
    for depth in range(1, ceiling + 1):
        reached = _step(ways, frontier)
        frontier = {}
        for name, nodes in reached.items():
            seen = visited.setdefault(name, np.zeros(views.table(node_table(name)).count, bool))
            fresh = nodes[~seen[nodes]]
            seen[fresh] = True
            if depth >= op.hops.minimum and name in target_view.types:
                met.append(lift(target_view, name, fresh))
            start = expanded_source.get(name)
            frontier[name] = fresh if start is None else np.setdiff1d(fresh, start)
        if not any(len(nodes) for nodes in frontier.values()):
            break
    else:
        if op.hops.maximum is None:
            raise ResourceLimit(
                f"an unbounded range was still finding nodes after {HOP_CEILING} hops; "
                "give it an upper bound",
                ceiling=HOP_CEILING,
            )
    return np.sort(np.concatenate(met)) if met else np.empty(0, np.int32)


def _step(ways: list[Hop], frontier: dict[str, Positions]) -> dict[str, Positions]:
    reached: dict[str, list[Positions]] = {}
    for way in ways:
        nodes = frontier.get(way.source_type)
        if nodes is None or len(nodes) == 0:
            continue
        _, entries = kernels.expand(way.neighbours.offsets, nodes)
        reached.setdefault(way.target_type, []).append(way.neighbours.nodes[entries])
    return {name: np.unique(np.concatenate(parts)) for name, parts in reached.items()}

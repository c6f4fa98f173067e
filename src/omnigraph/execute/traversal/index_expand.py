"""Follow edges from a few nodes through the indexes on `src` and `dst`: no adjacency is built."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execute.evaluation.storage_reads import rows_by_id, uncovered
from omnigraph.execute.topology.adjacency import Adjacency
from omnigraph.execute.topology.id_changes import MISSING
from omnigraph.execute.topology.neighbours import group
from omnigraph.execute.traversal.expand import Judge, with_ends
from omnigraph.execute.views.entity_view import TableView
from omnigraph.execute.views.frame import Binding, Frame, Index
from omnigraph.execute.views.partial_view import (
    PartialView,
)
from omnigraph.execute.views.snapshot_views import SnapshotViews
from omnigraph.ir.reads import Direction, Expand
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.values.identifiers import edge_table, node_table

# More sources than this want the adjacency, as do hubs: 64 sources take 29 ms, a build of a million
# edges 270 (`python -m bench crossovers`).
_FEW_SOURCES = 64
_MANY_EDGES = 2_000
# Edges that the index does not have are scanned by every hop.
_MOST_UNCOVERED = 50_000


@dataclass(frozen=True, slots=True)
class IndexedHop:
    """One edge type in one direction, between two types: the index on its near end can answer."""

    op: Expand
    adjacency: Adjacency
    edges: TableView
    targets: TableView
    near: str
    far: str


def indexed_hop(op: Expand, views: SnapshotViews) -> IndexedHop | None:
    """None where only the adjacency leads on."""
    if op.target_bound or len(op.steps) != 1 or op.steps[0].direction is Direction.BOTH:
        return None
    step = op.steps[0]
    edge = views.catalog.edge_types[step.edge]
    outward = step.direction is Direction.OUT
    start, end = (edge.source, edge.target) if outward else (edge.target, edge.source)
    if op.source.types != (start,) or op.target.types != (end,):
        return None
    near, far = ("src", "dst") if outward else ("dst", "src")
    edges, targets = views.table(edge_table(edge.name)), views.table(node_table(end))
    return IndexedHop(op, views.adjacency(step.edge), edges, targets, near, far)


def follow_by_index(hop: IndexedHop, frame: Frame, judge: Judge | None) -> Frame | None:
    """Rows of a few nodes of tables not read yet; None when the adjacency is the better way."""
    op, edges, near = hop.op, hop.edges, hop.near
    if frame.length > _FEW_SOURCES or hop.adjacency.is_better_made(frame.length):
        return None
    if uncovered(edges, near) > _MOST_UNCOVERED:
        return None
    source = frame.bindings[op.source.id]
    bound = np.flatnonzero(source.positions != MISSING)
    names = source.view.ids.take(pa.array(source.positions[bound]))
    found = find_rows(edges.dataset, pc.unique(names), edges.plain_columns, key=near)
    if found.num_rows > _MANY_EDGES:
        return None
    some = PartialView(edges, found)
    ends = _Ends(bound, names, some.column(near), some.column(hop.far))
    targets = hop.targets
    met = None if targets.is_built else rows_by_id(targets, ends.far.to_pylist())
    return _joined(op, frame, ends, targets if met is None else met, some, judge)


@dataclass(frozen=True, slots=True)
class _Ends:
    """Rows of the frame with their node's id, and the ends of the edges found, by edge."""

    rows: Index
    names: pa.Array
    near: pa.Array
    far: pa.Array


def _joined(
    op: Expand,
    frame: Frame,
    ends: _Ends,
    targets: TableView,
    edges: PartialView,
    judge: Judge | None,
) -> Frame:
    distinct = pc.unique(ends.names)
    keys, sources = (
        pc.index_in(names, value_set=distinct).to_numpy(zero_copy_only=False).astype(np.int32)
        for names in (ends.near, ends.names)
    )
    nodes = targets.find(ends.far)
    whole = np.flatnonzero(nodes != MISSING).astype(np.int32)
    made = group(keys[whole], nodes[whole], whole, len(distinct))
    taken_rows, met, taken = (made.pairs if op.edge is None else made).follow(sources)
    rows = ends.rows[taken_rows]
    if judge is not None:
        named = op.edge is not None
        good = judge(targets, met, edges if named else None, taken if named else None)
        rows, met, taken = rows[good], met[good], taken[good]
    edge = None if op.edge is None else Binding(edges, taken)
    return with_ends(op, frame, rows, Binding(targets, met), edge)

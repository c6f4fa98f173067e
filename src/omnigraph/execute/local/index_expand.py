"""Follow edges from a few nodes through the indexes on `src` and `dst`: no adjacency is built."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execute.limits import QueryLimits
from omnigraph.execute.local.entity_view import TableView
from omnigraph.execute.local.expand import Judge, expand_edges, with_ends
from omnigraph.execute.local.frame import Binding, Frame, Index
from omnigraph.execute.local.id_changes import MISSING
from omnigraph.execute.local.neighbours import group
from omnigraph.execute.local.partial_view import (
    MOST_ROWS,
    PartialView,
    is_indexed,
    rows_of,
    worth_looking_up,
)
from omnigraph.execute.local.views import SnapshotViews
from omnigraph.ir.reads import Direction, Expand
from omnigraph.lance_store.row_lookup import find_rows
from omnigraph.values.identifiers import edge_table, node_table

# More sources than this want the adjacency.
_FEW_SOURCES = 64


def follow_edges(
    op: Expand, frame: Frame, views: SnapshotViews, limits: QueryLimits, judge: Judge | None = None
) -> Frame:
    """Through indexes from a few nodes of tables not read yet, else by `expand_edges`."""
    found = _by_index(op, frame, views, judge)
    return expand_edges(op, frame, views, limits, judge) if found is None else found


def _by_index(op: Expand, frame: Frame, views: SnapshotViews, judge: Judge | None) -> Frame | None:
    """None when the adjacency is there or the better way."""
    source = frame.bindings[op.source.id]
    if op.target_bound or len(op.steps) != 1 or frame.length > _FEW_SOURCES:
        return None
    step = op.steps[0]
    edge = views.catalog.edge_types[step.edge]
    outward = step.direction is Direction.OUT
    start, end = (edge.source, edge.target) if outward else (edge.target, edge.source)
    fits = source.view.types == (start,) and op.target.types == (end,)
    if step.direction is Direction.BOTH or not fits:
        return None
    near, far = ("src", "dst") if outward else ("dst", "src")
    edges, targets = views.table(edge_table(edge.name)), views.table(node_table(end))
    if views.adjacency(step.edge).is_better_made() or not is_indexed(edges, near):
        return None
    bound = np.flatnonzero(source.positions != MISSING)
    names = source.view.ids.take(pa.array(source.positions[bound]))
    found = find_rows(edges.dataset, pc.unique(names), edges.plain_columns, key=near)
    if found.num_rows > MOST_ROWS:
        return None
    some = PartialView(edges, found)
    ends = _Ends(bound, names, some.column(near), some.column(far))
    met = rows_of(targets, ends.far.to_pylist()) if worth_looking_up(targets) else targets
    return _joined(op, frame, ends, met, some, judge)


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

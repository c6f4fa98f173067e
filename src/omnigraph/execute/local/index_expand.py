"""Follow edges from a few nodes through the indexes on `src` and `dst`: no adjacency is built."""

from __future__ import annotations

import numpy as np

from omnigraph.execute.limits import QueryLimits
from omnigraph.execute.local.expand import Judge, expand_edges, with_ends
from omnigraph.execute.local.frame import Binding, Frame
from omnigraph.execute.local.id_changes import MISSING
from omnigraph.execute.local.neighbours import group
from omnigraph.execute.local.partial_view import (
    MOST_ROWS,
    PartialView,
    is_indexed,
    rows_of,
)
from omnigraph.execute.local.views import SnapshotViews
from omnigraph.ir.reads import Direction, Expand
from omnigraph.lance_store.row_lookup import find_rows
from omnigraph.values.identifiers import edge_table, node_table


def follow_edges(
    op: Expand, frame: Frame, views: SnapshotViews, limits: QueryLimits, judge: Judge | None = None
) -> Frame:
    """Through indexes from a few nodes of tables not read yet, else by `expand_edges`."""
    found = _by_index(op, frame, views, judge)
    return expand_edges(op, frame, views, limits, judge) if found is None else found


def _by_index(op: Expand, frame: Frame, views: SnapshotViews, judge: Judge | None) -> Frame | None:
    """None when the adjacency is there or the better way."""
    source = frame.bindings[op.source.id]
    if not isinstance(source.view, PartialView) or op.target_bound or len(op.steps) != 1:
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
    indexed = is_indexed(edges, near) and is_indexed(targets, "id")
    if not indexed or views.adjacency(step.edge).is_better_made():
        return None
    found = find_rows(edges.dataset, source.view.ids, [near, far, *edges.plain_columns], key=near)
    if found.num_rows > MOST_ROWS:
        return None
    met = rows_of(targets, found.column(far).to_pylist())
    return _joined(op, frame, met, PartialView(edges, found), (near, far), judge)


def _joined(
    op: Expand,
    frame: Frame,
    targets: PartialView,
    edges: PartialView,
    ends: tuple[str, str],
    judge: Judge | None,
) -> Frame:
    source = frame.bindings[op.source.id]
    keys, nodes = (
        v.find(edges.column(c)) for v, c in zip((source.view, targets), ends, strict=True)
    )
    whole = nodes != MISSING
    every = np.flatnonzero(whole).astype(np.int32)
    made = group(keys[whole], nodes[whole], every, source.view.count)
    bound = np.flatnonzero(source.positions != MISSING)
    near = made.pairs if op.edge is None else made
    rows, met, taken = near.follow(source.positions[bound])
    rows = bound[rows]
    if judge is not None:
        named = op.edge is not None
        good = judge(targets, met, edges if named else None, taken if named else None)
        rows, met, taken = rows[good], met[good], taken[good]
    edge = None if op.edge is None else Binding(edges, taken)
    return with_ends(op, frame, rows, Binding(targets, met), edge)

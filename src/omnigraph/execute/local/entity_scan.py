"""Where variables come from: all entities of a type, or the few a predicate leaves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from omnigraph.catalog.model import NodeType
from omnigraph.execute.limits import QueryLimits
from omnigraph.execute.local.entity_view import MISSING, EntityView, Positions, TableView
from omnigraph.execute.local.expressions import Evaluator
from omnigraph.execute.local.frame import Binding, Frame
from omnigraph.execute.local.views import SnapshotViews
from omnigraph.ir import expressions as ex
from omnigraph.ir.reads import NodeScan
from omnigraph.ir.walk import walk
from omnigraph.values.canonical import canonical_text


def scan_nodes(
    variable: ex.Variable, frame: Frame, views: SnapshotViews, limits: QueryLimits
) -> Frame:
    """Every row with every node."""
    view = views.of(variable)
    return _cross(frame, variable, view, view.all_positions, limits)


def scan_filtered(
    scan: NodeScan,
    predicate: ex.Expression,
    frame: Frame,
    views: SnapshotViews,
    evaluator: Evaluator,
    limits: QueryLimits,
) -> Frame:
    """The predicate first, where it speaks of the new variable alone: then only its matches."""
    variable, view = scan.variable, views.of(scan.variable)
    own, other = _split(predicate, variable)
    looked_up = _point_lookup(own, variable, view, views, evaluator)
    if looked_up is None:
        positions = view.all_positions
    else:
        positions, answered = looked_up
        own.remove(answered)
    alone = Frame(len(positions), {variable.id: Binding(view, positions)})
    for conjunct in own:
        alone = alone.keep(evaluator.mask(conjunct, alone))
    result = _cross(frame, variable, view, alone.bindings[variable.id].positions, limits)
    for conjunct in other:
        result = result.keep(evaluator.mask(conjunct, result))
    return result


def _split(
    predicate: ex.Expression, variable: ex.Variable
) -> tuple[list[ex.Expression], list[ex.Expression]]:
    """Conjuncts about the new variable alone, and the others."""
    conjuncts = predicate.operands if isinstance(predicate, ex.And) else (predicate,)
    own: list[ex.Expression] = []
    other: list[ex.Expression] = []
    for conjunct in conjuncts:
        used = {n.variable.id for n in walk(conjunct) if isinstance(n, _BOUND)}
        (own if used == {variable.id} else other).append(conjunct)
    return own, other


_BOUND = (ex.PropertyOf, ex.Whole, ex.TypeName)


def _point_lookup(
    conjuncts: list[ex.Expression],
    variable: ex.Variable,
    view: EntityView,
    views: SnapshotViews,
    evaluator: Evaluator,
) -> tuple[Positions, ex.Expression] | None:
    """`$x.id = value` or its key: one search in the sorted ids answers this conjunct."""
    if not isinstance(view, TableView):
        return None
    node = views.catalog.node_types[variable.types[0]]
    for conjunct in conjuncts:
        match conjunct:
            case ex.Compare("=", ex.PropertyOf(_, name), value) | ex.Compare(
                "=", value, ex.PropertyOf(_, name)
            ) if isinstance(value, ex.Constant | ex.ParameterRef) and _names(node, name):
                wanted = evaluator.plain(value)
                if wanted is None:
                    return np.empty(0, np.int32), conjunct
                text = wanted if name == "id" else canonical_text(wanted)
                position = view.find_one(text)
                found = [] if position == MISSING else [position]
                return np.array(found, np.int32), conjunct
            case _:
                continue
    return None


def _names(node: NodeType, property_name: str) -> bool:
    return property_name == "id" or node.key == (property_name,)


def _cross(
    frame: Frame,
    variable: ex.Variable,
    view: EntityView,
    positions: Positions,
    limits: QueryLimits,
) -> Frame:
    each = len(positions)
    if frame.length > 1:
        limits.reserve(frame.length * each, len(frame.bindings) + 1)
    if frame.length == 1:
        rows = np.zeros(each, np.int64)
        column = positions
    else:
        rows = np.repeat(np.arange(frame.length), each)
        column = np.tile(positions, frame.length)
    sorted_before = frame.length == 1 or bool(frame.sorted_by)
    ascends = sorted_before and view.ranks is None
    result = frame.take(rows, ordered=True).bind(variable.id, Binding(view, column))
    return replace(result, sorted_by=(*frame.sorted_by, variable.id) if ascends else ())

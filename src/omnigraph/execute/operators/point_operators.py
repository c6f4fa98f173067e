"""A walk from one named entity as one function, with everything it needs looked up before.

The function answers from memory: the entity is found by its id, and each hop is a slice of the
arrays of a direction. When something is not in memory, or the rows are many, the operators of the
steps run one after the other instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from omnigraph.execute.evaluation.storage_reads import in_memory, spelled
from omnigraph.execute.operators.operator_binding import Binder, Operator, QueryRun
from omnigraph.execute.topology import kernels
from omnigraph.execute.topology.adjacency import INTO, OUT
from omnigraph.execute.topology.id_changes import MISSING, Positions
from omnigraph.execute.traversal.expand import entry_filter_of
from omnigraph.execute.views.entity_view import EntityView
from omnigraph.execute.views.frame import Binding, Frame
from omnigraph.ir import reads
from omnigraph.ir.reads import Direction, Expand
from omnigraph.plan.analysis import is_between_its_ends
from omnigraph.plan.physical import DistinctOn, Find, Follow, Keep, Point

# Of more rows the operators count first how many rows a hop makes.
_FEW_ROWS = 1000
_NOWHERE = np.empty(0, np.int32)


@dataclass(slots=True)
class _WalkedRows:
    """Where a walk is: the positions of each variable that is still needed."""

    length: int
    bound: dict[int, Positions]


Step = Callable[[QueryRun, _WalkedRows], bool]
"""Changes the place. False means that the operators must take the walk."""


@dataclass(frozen=True, slots=True)
class _Walk:
    """The steps, and the frame that they end with."""

    steps: tuple[Step, ...]
    views: tuple[tuple[int, EntityView], ...]
    sorted_by: tuple[int, ...]

    def run(self, run: QueryRun) -> Frame | None:
        place = _WalkedRows(1, {})
        check = run.limits.check
        for step in self.steps:
            check()
            if not step(run, place):
                return None
        bound = place.bound
        bindings = {v: Binding(view, bound[v]) for v, view in self.views}
        return Frame(place.length, bindings, sorted_by=self.sorted_by)


def bind_point(binder: Binder, op: Point) -> Operator:
    """A profile measures the steps one by one, so there they are not one function."""
    general = binder.bind(op.input)
    walk = _walk(binder, op) if binder.steps is None else None
    if walk is None:
        return general

    def point(run: QueryRun, start: Frame) -> Frame:
        if start.length == 1 and start.is_empty:
            found = walk.run(run)
            if found is not None:
                return found
        return general(run, start)

    return point


def _walk(binder: Binder, op: Point) -> _Walk | None:
    """None when an edge of the walk leads to nodes of several types, or a variable has several."""
    chain: list[Any] = [op.input]
    while not isinstance(chain[-1].input, reads.Rows):
        chain.append(chain[-1].input)
    chain.reverse()
    steps: list[Step] = []
    views: dict[int, EntityView] = {}
    sorted_by: tuple[int, ...] = ()
    for step, after in zip(chain, [*chain[1:], None], strict=True):
        needed = after.variables if isinstance(after, Keep) else None
        match step:
            case Find(_, variable):
                views[variable.id] = binder.views.of(variable)
                steps.append(_find(binder, step))
                sorted_by = (variable.id,)
            case Expand() | Follow():
                expand = step if isinstance(step, Expand) else step.expand
                if not is_between_its_ends(expand, binder.views.catalog):
                    return None
                carried = tuple(v for v in views if needed is None or v in needed)
                steps.append(_hop(binder, step, expand, carried))
                views[expand.target.id] = binder.views.of(expand.target)
                sorted_by = (*sorted_by, expand.target.id) if sorted_by else ()
                if expand.edge is not None:
                    views[expand.edge.id] = binder.views.of(expand.edge)
                    sorted_by = ()
            case Keep(_, variables):
                views = {v: view for v, view in views.items() if v in variables}
            case DistinctOn(_, variables):
                (variable_id,) = variables
                steps.append(_distinct(variable_id, views[variable_id]))
                sorted_by = (variable_id,)
            case _:
                raise AssertionError(f"{type(step).__name__} is no step of a point")
    return _Walk(tuple(steps), tuple(views.items()), sorted_by)


def _find(binder: Binder, op: Find) -> Step:
    (table,) = binder.views.of(op.variable).tables
    look_up, variable = op.look_up, op.variable.id
    assert look_up is not None
    wanted: Any = look_up.wanted
    columns = () if op.cold is None else op.cold.columns

    def find(run: QueryRun, place: _WalkedRows) -> bool:
        if not in_memory(table, columns):
            return False
        value = run.evaluator.plain(wanted)
        at = MISSING if value is None else table.find_one(spelled(look_up, value))
        place.length = 0 if at == MISSING else 1
        place.bound[variable] = _NOWHERE if at == MISSING else np.array((at,), np.int32)
        return True

    return find


def _hop(binder: Binder, op: Any, expand: Expand, carried: tuple[int, ...]) -> Step:
    """`carried` are the variables whose entities belong to the new rows, too."""
    edge_step = expand.steps[0]
    adjacency = binder.views.adjacency(edge_step.edge)
    direction = OUT if edge_step.direction is Direction.OUT else INTO
    source, target, edge = expand.source.id, expand.target.id, expand.edge
    target_view = binder.views.of(expand.target)
    edge_view = None if edge is None else binder.views.of(edge)
    only_targets = not carried and edge is None and not isinstance(op, Follow)

    def hop(run: QueryRun, place: _WalkedRows) -> bool:
        near = adjacency.in_memory(direction)
        if near is None or place.length > _FEW_ROWS:
            return False
        before = place.bound
        near = near.pairs if edge is None else near
        if only_targets:
            nodes = near.targets(before[source])
            place.length, place.bound = len(nodes), {target: nodes}
            if place.length > _FEW_ROWS:
                run.limits.reserve(place.length, 2)
            return True
        rows, nodes, edges = near.follow(before[source])
        if isinstance(op, Follow):
            named = None if edge is None else edges
            good = entry_filter_of(op, run.evaluator)(target_view, nodes, edge_view, named)
            rows, nodes, edges = rows[good], nodes[good], edges[good]
        place.length = len(nodes)
        if place.length > _FEW_ROWS:
            run.limits.reserve(place.length, len(before) + 1)
        bound = {v: before[v][rows] for v in carried}
        bound[target] = nodes
        if edge is not None:
            bound[edge.id] = edges
        place.bound = bound
        return True

    return hop


def _distinct(variable: int, view: EntityView) -> Step:
    def distinct(run: QueryRun, place: _WalkedRows) -> bool:
        nodes = kernels.unique_sorted(place.bound[variable], view.count)
        place.bound[variable] = nodes
        place.length = len(nodes)
        return True

    return distinct

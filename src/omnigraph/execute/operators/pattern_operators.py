"""The operators of a pattern: they find the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import ResourceLimit
from omnigraph.execute.evaluation.aggregates import distinct_on
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.evaluation.storage_reads import read_found, wanted_ids
from omnigraph.execute.limits import QueryLimits
from omnigraph.execute.operators.operator_binding import Binder, Operator, QueryRun
from omnigraph.execute.topology.id_changes import MISSING, Positions
from omnigraph.execute.topology.kernels import RowNumbers
from omnigraph.execute.traversal.expand import (
    count_edges,
    entry_filter_of,
    expand_edges,
    follow_by_index,
    indexed_hop,
    route_of,
    weigh_between,
    weigh_edges,
)
from omnigraph.execute.traversal.paths import expand_paths, expand_reach
from omnigraph.execute.views.entity_view import EntityView
from omnigraph.execute.views.frame import PATHS, Binding, Frame, PathBinding
from omnigraph.execute.views.snapshot_views import SnapshotViews
from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.ir.expressions import VariableKind
from omnigraph.plan.analysis import shared_with
from omnigraph.plan.physical import (
    DistinctOn,
    Find,
    Follow,
    Keep,
    LookUp,
    PhysicalOp,
    Weigh,
    WeighBetween,
)
from omnigraph.values.entity_ids import canonical_text


def _rows(binder: Binder, op: reads.Rows) -> Operator:
    return lambda run, start: start


def _scan(binder: Binder, op: reads.NodeScan) -> Operator:
    below, view = binder.bind(op.input), binder.views.of(op.variable)
    return lambda run, start: scan_nodes(op.variable, below(run, start), view, run.limits)


def _find(binder: Binder, op: Find) -> Operator:
    below, view = binder.bind(op.input), binder.views.of(op.variable)
    anywhere = replace(op, look_up=None)

    def find(run: QueryRun, start: Frame) -> Frame:
        frame, evaluator, limits = below(run, start), run.evaluator, run.limits
        few = read_found(op, view, evaluator)
        if few is not None:
            limits.reserve(few.count, few.width)
            return find_nodes(anywhere, frame, few, evaluator, limits)
        return find_nodes(op, frame, view, evaluator, limits)

    return find


def _filter(binder: Binder, op: reads.Filter) -> Operator:
    below = binder.bind(op.input)

    def keep(run: QueryRun, start: Frame) -> Frame:
        frame = below(run, start)
        return frame.keep(run.evaluator.mask(op.predicate, frame))

    return keep


def _expand(binder: Binder, op: reads.Expand) -> Operator:
    if op.mode is reads.ExpandMode.EDGE:
        return _edges(binder, op, op, None)
    below = binder.bind(op.input)
    match op.mode:
        case reads.ExpandMode.REACH:
            route = route_of(op, binder.views)
            return lambda run, start: expand_reach(route, below(run, start), run.limits)
        case reads.ExpandMode.TRAILS | reads.ExpandMode.SHORTEST:
            route = route_of(op, binder.views)
            return lambda run, start: expand_paths(route, below(run, start), run.limits)


def _follow(binder: Binder, op: Follow) -> Operator:
    return _edges(binder, op, op.expand, None)


def _edges(
    binder: Binder,
    op: reads.Expand | Follow,
    expand: reads.Expand,
    kept: frozenset[int] | None,
) -> Operator:
    """Follow through indexes, from a few nodes of tables that are not loaded, or the adjacency.

    `kept` are the variables that the new rows need; None means all.
    """
    below = binder.bind(op.input)
    route = replace(route_of(expand, binder.views), kept=kept)
    hop = indexed_hop(expand, binder.views)
    filtered = op if isinstance(op, Follow) else None

    def follow(run: QueryRun, start: Frame) -> Frame:
        frame = below(run, start)
        entry_filter = None if filtered is None else entry_filter_of(filtered, run.evaluator)
        if hop is not None:
            found = follow_by_index(hop, frame, entry_filter)
            if found is not None:
                return found if kept is None else found.only(kept)
        return expand_edges(route, frame, run.limits, entry_filter)

    return follow


def _weigh(binder: Binder, op: Weigh) -> Operator:
    below, route = binder.bind(op.input), route_of(op.expand, binder.views)
    return lambda run, start: weigh_edges(route, below(run, start))


def _weigh_between(binder: Binder, op: WeighBetween) -> Operator:
    below = binder.bind(op.input)
    first, second = (route_of(hop, binder.views) for hop in (op.first, op.second))
    return lambda run, start: weigh_between(first, second, below(run, start), run.limits)


def _keep(binder: Binder, op: Keep) -> Operator:
    """After a hop, rows are made without the variables that are dropped."""
    hop = op.input
    if binder.steps is None:  # a profile measures the two one by one
        match hop:
            case reads.Expand(mode=reads.ExpandMode.EDGE):
                return _edges(binder, hop, hop, op.variables)
            case Follow(_, expand):
                return _edges(binder, hop, expand, op.variables)
            case _:
                pass
    below = binder.bind(hop)
    return lambda run, start: below(run, start).only(op.variables)


def _distinct_on(binder: Binder, op: DistinctOn) -> Operator:
    below = binder.bind(op.input)
    return lambda run, start: distinct_on(below(run, start), op.variables)


def _anti_join(binder: Binder, op: reads.AntiJoin) -> Operator:
    below, matches = binder.bind(op.input), _matches_of(binder, op.pattern)

    def without_match(run: QueryRun, start: Frame) -> Frame:
        frame = below(run, start)
        return frame.keep(~matches(run, frame))

    return without_match


def _semi_join(binder: Binder, op: reads.SemiJoin) -> Operator:
    below, matches = binder.bind(op.input), _matches_of(binder, op.pattern)

    def with_match(run: QueryRun, start: Frame) -> Frame:
        frame = below(run, start)
        return frame.keep(matches(run, frame))

    return with_match


def _exists_filter(binder: Binder, op: reads.ExistsFilter) -> Operator:
    below = binder.bind(op.input)
    patterns = {inner.name: _matches_of(binder, inner.pattern) for inner in op.patterns}

    def keep(run: QueryRun, start: Frame) -> Frame:
        frame = below(run, start)
        matched = {name: pa.array(matches(run, frame)) for name, matches in patterns.items()}
        return frame.keep(run.evaluator.mask(op.predicate, replace(frame, columns=matched)))

    return keep


def _matches_of(
    binder: Binder, pattern: PhysicalOp
) -> Callable[[QueryRun, Frame], npt.NDArray[np.bool_]]:
    """A function that says for each row of a frame whether the pattern has a match."""
    match pattern:
        case reads.Expand(reads.Rows(), mode=reads.ExpandMode.EDGE, target_bound=False) if set(
            _target_types(pattern, binder.views)
        ) <= set(pattern.target.types):
            route = route_of(pattern, binder.views)
            return lambda run, frame: count_edges(route, frame) > 0
    inside, shared = binder.bind(pattern), shared_with(pattern)

    def matches(run: QueryRun, frame: Frame) -> npt.NDArray[np.bool_]:
        start, row_of = _block_start(shared, frame)
        mask = np.zeros(start.length, bool)
        found: Iterable[Frame]
        try:
            found = [inside(run, start)]
        except ResourceLimit as error:
            found = binder.in_parts(pattern, run, start, error).frames()
        for part in found:
            assert part.origin is not None
            mask[part.origin] = True
            if mask.all():
                break
        return mask if row_of is None else mask[row_of]

    return matches


def _block_start(
    shared: Sequence[ex.Variable], frame: Frame
) -> tuple[Frame, npt.NDArray[np.integer[Any]] | None]:
    """The rows that a block begins with, which bind what it shares with the rows around it.

    Beside them, the row of the block for every row of the frame; None when they are the same.
    """
    if not shared:
        alone = Frame(min(frame.length, 1))
        return replace(alone, origin=np.arange(alone.length)), np.zeros(frame.length, np.int64)
    variable = shared[0].id
    binding = frame.bindings.get(variable)
    if len(shared) == 1 and binding is not None and frame.length > binding.view.count:
        # Some entity is in several rows. The block is matched once for each entity.
        positions, row_of = np.unique(binding.positions, return_inverse=True)
        once = Frame(len(positions), {variable: replace(binding, positions=positions)})
        return replace(once, origin=np.arange(once.length)), row_of
    bound = {v.id: frame.bindings[v.id] for v in shared if v.id in frame.bindings}
    paths = {v.id: frame.paths[v.id] for v in shared if v.id in frame.paths}
    return Frame(frame.length, bound, paths, origin=np.arange(frame.length)), None


def _target_types(op: reads.Expand, views: SnapshotViews) -> list[str]:
    types = []
    for step in op.steps:
        edge = views.catalog.edge_types[step.edge]
        types += [edge.target] if step.direction is not reads.Direction.IN else []
        types += [edge.source] if step.direction is not reads.Direction.OUT else []
    return types


def _optional(binder: Binder, op: reads.Optional) -> Operator:
    below, pattern = binder.bind(op.input), binder.bind(op.pattern)

    def optional(run: QueryRun, start: Frame) -> Frame:
        frame = below(run, start)
        found = pattern(run, replace(frame, origin=np.arange(frame.length)))
        return _with_unmatched(op, frame, found)

    return optional


def _with_unmatched(op: reads.Optional, frame: Frame, inside: Frame) -> Frame:
    origin = inside.origin
    assert origin is not None
    unmatched = np.setdiff1d(np.arange(frame.length), origin)
    order = np.argsort(np.concatenate([origin, unmatched]), kind="stable")
    rows = np.concatenate([origin, unmatched])[order]
    result = frame.take(rows)
    bindings, paths = dict(result.bindings), dict(result.paths)
    for variable in op.variables:
        if variable.kind is VariableKind.PATH:
            ids = [inside.paths[variable.id].ids, pa.nulls(len(unmatched), PATHS)]
            paths[variable.id] = PathBinding(pa.concat_arrays(ids)).take(order)
        else:
            found = inside.bindings[variable.id]
            blank = np.full(len(unmatched), MISSING, np.int32)
            positions = np.concatenate([found.positions, blank])[order]
            bindings[variable.id] = Binding(found.view, positions, optional=True)
    return replace(result, bindings=bindings, paths=paths)


def scan_nodes(variable: ex.Variable, frame: Frame, view: EntityView, limits: QueryLimits) -> Frame:
    """Each row with every node."""
    return _cross(frame, variable, view, view.all_positions, limits)


def find_nodes(
    op: Find, frame: Frame, view: EntityView, evaluator: Evaluator, limits: QueryLimits
) -> Frame:
    """Each row with the nodes that the query names and that pass the predicates."""
    look_up = op.look_up
    if look_up is None:
        positions = view.all_positions
    elif look_up.per_row:
        return _joined(op, look_up, frame, view, evaluator)
    else:
        positions = _named(look_up, view, evaluator)
    if op.where and len(positions):
        alone = Frame(len(positions), {op.variable.id: Binding(view, positions)})
        for predicate in op.where:
            alone = alone.keep(evaluator.mask(predicate, alone))
        positions = alone.bindings[op.variable.id].positions
    return _cross(frame, op.variable, view, positions, limits)


def _named(look_up: LookUp, view: EntityView, evaluator: Evaluator) -> Positions:
    """The positions of the ids or keys that the query names, ascending."""
    ids = wanted_ids(look_up, evaluator)
    tables = view.tables
    found: list[int] = []
    start = 0
    for table in tables:
        if len(ids) == 1:
            position = table.find_one(ids[0])
            found += () if position == MISSING else (start + position,)
        else:
            positions = table.find(pa.array(ids, pa.string()))
            found += (positions[positions != MISSING] + start).tolist()
        start += table.count if len(tables) > 1 else 0
    return np.array(found, np.int32)


def _joined(
    op: Find, look_up: LookUp, frame: Frame, view: EntityView, evaluator: Evaluator
) -> Frame:
    """A join on the id: each row with the node of each type that its value names."""
    values = evaluator.array(look_up.wanted, frame)
    ids = values if look_up.property == "id" else _ids_of(values)
    rows: list[RowNumbers] = []
    nodes: list[Positions] = []
    start = 0
    for table in view.tables:
        positions = table.find(ids)
        hits = np.flatnonzero(positions != MISSING)
        rows.append(hits)
        nodes.append((positions[hits] + start).astype(np.int32))
        start += table.count
    index, met = np.concatenate(rows), np.concatenate(nodes)
    result = frame.take(index).bind(op.variable.id, Binding(view, met))
    for predicate in op.where:
        result = result.keep(evaluator.mask(predicate, result))
    return result


def _ids_of(values: pa.Array) -> pa.Array:
    encoded = values.dictionary_encode()
    texts = [canonical_text(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


def _cross(
    frame: Frame,
    variable: ex.Variable,
    view: EntityView,
    positions: Positions,
    limits: QueryLimits,
) -> Frame:
    each = len(positions)
    ascends = view.ranks is None
    if frame.length == 1 and frame.is_bare and not frame.bindings and frame.weights is None:
        sorted_by = (variable.id,) if ascends else ()
        return Frame(each, {variable.id: Binding(view, positions)}, sorted_by=sorted_by)
    if frame.length > 1:
        limits.reserve(frame.length * each, len(frame.bindings) + 1)
    rows = np.repeat(np.arange(frame.length), each)
    column = positions if frame.length == 1 else np.tile(positions, frame.length)
    ascends = ascends and (frame.length == 1 or bool(frame.sorted_by))
    result = frame.take(rows, ordered=True).bind(variable.id, Binding(view, column))
    return replace(result, sorted_by=(*frame.sorted_by, variable.id) if ascends else ())


PATTERN_OPERATORS: Mapping[type, Callable[[Binder, Any], Operator]] = {
    reads.Rows: _rows,
    reads.NodeScan: _scan,
    Find: _find,
    reads.Filter: _filter,
    reads.Expand: _expand,
    Follow: _follow,
    Weigh: _weigh,
    WeighBetween: _weigh_between,
    Keep: _keep,
    DistinctOn: _distinct_on,
    reads.AntiJoin: _anti_join,
    reads.SemiJoin: _semi_join,
    reads.ExistsFilter: _exists_filter,
    reads.Optional: _optional,
}

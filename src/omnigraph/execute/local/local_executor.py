"""Drive a read plan on one machine: a table from operator to function."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.catalog.annotations import embedding_of
from omnigraph.embed.provider import EmbeddingProvider, embed_query
from omnigraph.errors import InvalidArgument, ResourceLimit
from omnigraph.execute.limits import QueryLimits
from omnigraph.execute.local.aggregates import aggregate_frame, distinct_on, distinct_rows
from omnigraph.execute.local.cold_scan import ColdReads, read_rows
from omnigraph.execute.local.entity_scan import find_nodes, scan_nodes
from omnigraph.execute.local.entity_view import MISSING
from omnigraph.execute.local.expand import count_edges, weigh_edges
from omnigraph.execute.local.expand_filters import judge_entries
from omnigraph.execute.local.expressions import Evaluator
from omnigraph.execute.local.frame import ONE_ROW, Binding, Frame, PathBinding
from omnigraph.execute.local.in_parts import InParts, can_be_counted, can_be_grouped
from omnigraph.execute.local.index_expand import follow_edges
from omnigraph.execute.local.late_rows import UnprojectedRows, worth_waiting
from omnigraph.execute.local.ordering import sort_frame
from omnigraph.execute.local.ranked_search import fuse_frame, score_frame
from omnigraph.execute.local.reach import expand_reach
from omnigraph.execute.local.spill import SpillSpace, parts_of
from omnigraph.execute.local.trails import expand_paths
from omnigraph.execute.local.views import SnapshotViews
from omnigraph.ir import reads
from omnigraph.ir.expressions import VariableKind
from omnigraph.plan.physical import DistinctOn, Find, Follow, Keep, Nearest, PhysicalOp, Weigh
from omnigraph.values.scalars import VectorType


@dataclass(slots=True)
class Step:
    """What one operator did, its inputs not counted."""

    rows: int = 0
    milliseconds: float = 0.0


@dataclass(frozen=True, slots=True)
class LocalExecutor:
    """One run of one plan on one snapshot."""

    views: SnapshotViews
    evaluator: Evaluator
    limits: QueryLimits
    provider: EmbeddingProvider
    cold_reads: ColdReads
    space: SpillSpace
    steps: dict[int, Step] | None = None
    """Filled per operator when somebody wants a profile."""

    def table(self, plan: PhysicalOp) -> pa.Table:
        columns = self.run(plan, ONE_ROW).columns
        return pa.Table.from_arrays(list(columns.values()), list(columns))

    def answer(self, plan: PhysicalOp) -> pa.Table | UnprojectedRows:
        """The rows; very many of them with their columns left to be read in parts."""
        if not isinstance(plan, reads.Project):
            return self.table(plan)
        frame = self.run(plan.input, ONE_ROW)
        if worth_waiting(plan, frame):
            return UnprojectedRows(frame, plan, self.evaluator, self.limits)
        arrays = [self.evaluator.array(c.value, frame) for c in plan.columns]
        return pa.Table.from_arrays(arrays, [c.name for c in plan.columns])

    def in_parts(self, op: Any, start: Frame, error: ResourceLimit) -> InParts:
        """How to go on when the rows of `op` do not fit; the error itself when there is no way."""
        parts = parts_of(op) if error.limit == "memory" else None
        if parts is None:
            raise error
        return InParts(parts, self.run, start, self.evaluator, self.limits, self.space)

    def run(self, op: PhysicalOp, start: Frame) -> Frame:
        """Rows of `op`; a sub-pattern begins with the rows of `start`."""
        self.limits.check()
        if self.steps is None:
            return self._run(op, start)
        step = self.steps.setdefault(id(op), Step())
        inner = sum(s.milliseconds for s in self.steps.values())
        began = time.perf_counter()
        frame = self._run(op, start)
        spent = (time.perf_counter() - began) * 1000
        step.rows += frame.length
        step.milliseconds += spent - (sum(s.milliseconds for s in self.steps.values()) - inner)
        return frame

    def _run(self, op: PhysicalOp, start: Frame) -> Frame:
        operate = _OPERATE.get(type(op))
        if operate is None:
            raise InvalidArgument(f"{type(op).__name__} cannot run on the local executor yet")
        return operate(self, op, start)


def _rows(executor: LocalExecutor, op: reads.Rows, start: Frame) -> Frame:
    return start


def _scan(executor: LocalExecutor, op: reads.NodeScan, start: Frame) -> Frame:
    return scan_nodes(op.variable, executor.run(op.input, start), executor.views, executor.limits)


def _find(executor: LocalExecutor, op: Find, start: Frame) -> Frame:
    frame = executor.run(op.input, start)
    evaluator, limits = executor.evaluator, executor.limits
    view = executor.views.of(op.variable)
    if op.cold is not None:
        few = read_rows(op, view, evaluator, executor.cold_reads)
        if few is not None:
            limits.reserve(few.count, len(op.cold.columns))
            return find_nodes(replace(op, look_up=None), frame, few, evaluator, limits)
    return find_nodes(op, frame, view, evaluator, limits)


def _filter(executor: LocalExecutor, op: reads.Filter, start: Frame) -> Frame:
    frame = executor.run(op.input, start)
    return frame.keep(executor.evaluator.mask(op.predicate, frame))


def _expand(executor: LocalExecutor, op: reads.Expand, start: Frame) -> Frame:
    frame = executor.run(op.input, start)
    match op.mode:
        case reads.ExpandMode.EDGE:
            return follow_edges(op, frame, executor.views, executor.limits)
        case reads.ExpandMode.REACH:
            return expand_reach(op, frame, executor.views, executor.limits)
        case reads.ExpandMode.TRAILS | reads.ExpandMode.SHORTEST:
            return expand_paths(op, frame, executor.views, executor.limits)


def _follow(executor: LocalExecutor, op: Follow, start: Frame) -> Frame:
    judge = judge_entries(op, executor.evaluator)
    return follow_edges(
        op.expand, executor.run(op.input, start), executor.views, executor.limits, judge
    )


def _weigh(executor: LocalExecutor, op: Weigh, start: Frame) -> Frame:
    return weigh_edges(op.expand, executor.run(op.input, start), executor.views)


def _keep(executor: LocalExecutor, op: Keep, start: Frame) -> Frame:
    return executor.run(op.input, start).only(op.variables)


def _distinct_on(executor: LocalExecutor, op: DistinctOn, start: Frame) -> Frame:
    return distinct_on(executor.run(op.input, start), op.variables)


def _project(executor: LocalExecutor, op: reads.Project, start: Frame) -> Frame:
    frame = executor.run(op.input, start)
    values = {c.name: executor.evaluator.array(c.value, frame) for c in op.columns}
    return Frame(frame.length, columns=values, weights=frame.weights)


def _distinct(executor: LocalExecutor, op: reads.Distinct, start: Frame) -> Frame:
    below = op.input.input if isinstance(op.input, reads.Project) else None
    try:
        frame = executor.run(op.input, start)
    except ResourceLimit as error:
        return executor.in_parts(below, start, error).distinct(op)
    return frame.take(distinct_rows(list(frame.columns.values()), frame.length))


def _aggregate(executor: LocalExecutor, op: reads.Aggregate, start: Frame) -> Frame:
    try:
        frame = executor.run(op.input, start)
    except ResourceLimit as error:
        possible = can_be_counted(op) or can_be_grouped(op)
        parts = executor.in_parts(op.input if possible else None, start, error)
        return parts.grouped(op) if op.keys else parts.counted(op)
    return aggregate_frame(op, frame, executor.evaluator)


def _order(executor: LocalExecutor, op: reads.OrderBy, start: Frame) -> Frame:
    try:
        frame = executor.run(op.input, start)
    except ResourceLimit as error:
        return executor.in_parts(op.input, start, error).sorted(op)
    return sort_frame(op, frame, executor.evaluator, None)


def _limit(executor: LocalExecutor, op: reads.Limit, start: Frame) -> Frame:
    first, skip = _bounds(executor, op.count, op.offset)
    wanted = None if first is None else first + skip
    below = op.input
    if isinstance(below, reads.OrderBy):
        frame = _first_of(executor, below, start, wanted)
    else:
        frame = executor.run(below, start)
    if skip == 0 and (wanted is None or wanted >= frame.length):
        return frame
    end = frame.length if wanted is None else min(frame.length, wanted)
    return frame.take(np.arange(min(skip, end), end), ordered=True)


def _first_of(
    executor: LocalExecutor, order: reads.OrderBy, start: Frame, wanted: int | None
) -> Frame:
    """Only the first so many are put in order; a ranking may ask its index for just those."""
    below: Any = order.input
    if isinstance(below, Nearest):
        rows = executor.run(below.input, start)
        rows = score_frame(below.search, rows, _sought(executor, below.search), wanted)
    else:
        try:
            rows = executor.run(below, start)
        except ResourceLimit as error:
            parts = executor.in_parts(below, start, error)
            return parts.sorted(order) if wanted is None else parts.first_of(order, wanted)
    return sort_frame(order, rows, executor.evaluator, wanted)


def _search(executor: LocalExecutor, op: reads.Search, start: Frame) -> Frame:
    return score_frame(op, executor.run(op.input, start), _sought(executor, op), None)


def _fuse(executor: LocalExecutor, op: reads.Fuse, start: Frame) -> Frame:
    searches = [s for s in _below(op) if isinstance(s, reads.Search)]
    return fuse_frame(op, executor.run(op.input, start), searches, executor.evaluator.scalar(op.k))


def _sought(executor: LocalExecutor, search: reads.Search) -> Any:
    """What a search looks for; a text for `nearest` becomes a vector of the recorded model."""
    query = executor.evaluator.scalar(search.query)
    if search.function != "nearest" or not isinstance(query, str):
        return query
    node = executor.views.catalog.node_types[search.variable.types[0]]
    declared = next(p for p in node.properties if p.name == search.property)
    assert isinstance(declared.type, VectorType)
    embedding = embedding_of(declared)
    model = embedding.model if embedding is not None else None
    return embed_query(executor.provider, query, model, declared.type.width)


def _anti_join(executor: LocalExecutor, op: reads.AntiJoin, start: Frame) -> Frame:
    frame, pattern = executor.run(op.input, start), op.pattern
    match pattern:
        case reads.Expand(reads.Rows(), mode=reads.ExpandMode.EDGE, target_bound=False) if set(
            _target_types(pattern, executor.views)
        ) <= set(pattern.target.types):
            return frame.keep(count_edges(pattern, frame, executor.views) == 0)
        case _:
            inside = replace(frame, origin=np.arange(frame.length))
            matched = executor.run(pattern, inside).origin
            assert matched is not None
            mask = np.ones(frame.length, bool)
            mask[matched] = False
            return frame.keep(mask)


def _optional(executor: LocalExecutor, op: reads.Optional, start: Frame) -> Frame:
    frame = executor.run(op.input, start)
    inside = executor.run(op.pattern, replace(frame, origin=np.arange(frame.length)))
    origin = inside.origin
    assert origin is not None
    unmatched = np.setdiff1d(np.arange(frame.length), origin)
    order = np.argsort(np.concatenate([origin, unmatched]), kind="stable")
    rows = np.concatenate([origin, unmatched])[order]
    result = frame.take(rows)
    bindings, paths = dict(result.bindings), dict(result.paths)
    for variable in op.variables:
        if variable.kind is VariableKind.PATH:
            ids = (*inside.paths[variable.id].ids, *(None for _ in unmatched))
            paths[variable.id] = PathBinding(tuple(ids[i] for i in order))
        else:
            found = inside.bindings[variable.id]
            blank = np.full(len(unmatched), MISSING, np.int32)
            positions = np.concatenate([found.positions, blank])[order]
            bindings[variable.id] = Binding(found.view, positions)
    return replace(result, bindings=bindings, paths=paths)


def _bounds(executor: LocalExecutor, count: Any, offset: Any) -> tuple[int | None, int]:
    first = None if count is None else executor.evaluator.scalar(count)
    skip = 0 if offset is None else executor.evaluator.scalar(offset) or 0
    for name, value in (("limit", first), ("offset", skip)):
        if value is not None and value < 0:
            raise InvalidArgument(f"{name} must not be negative, got {value}")
    return first, skip


_OPERATE: dict[type, Callable[[LocalExecutor, Any, Frame], Frame]] = {
    reads.Rows: _rows,
    reads.NodeScan: _scan,
    Find: _find,
    reads.Filter: _filter,
    reads.Expand: _expand,
    Follow: _follow,
    Weigh: _weigh,
    Keep: _keep,
    DistinctOn: _distinct_on,
    reads.AntiJoin: _anti_join,
    reads.Optional: _optional,
    reads.Project: _project,
    reads.Distinct: _distinct,
    reads.Aggregate: _aggregate,
    reads.OrderBy: _order,
    reads.Limit: _limit,
    reads.Search: _search,
    reads.Fuse: _fuse,
}


def _below(op: Any) -> Iterator[Any]:
    while not isinstance(op, reads.Rows):
        op = op.input
        yield op


def _target_types(op: reads.Expand, views: SnapshotViews) -> list[str]:
    types = []
    for step in op.steps:
        edge = views.catalog.edge_types[step.edge]
        types += [edge.target] if step.direction is not reads.Direction.IN else []
        types += [edge.source] if step.direction is not reads.Direction.OUT else []
    return types

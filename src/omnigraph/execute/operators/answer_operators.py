"""The operators above a pattern: they project, group, sort, limit and rank its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from omnigraph.catalog.model import embedding_of
from omnigraph.embed.provider import embed_query
from omnigraph.errors import InvalidArgument, ResourceLimit
from omnigraph.execute.evaluation.aggregates import aggregate_frame, distinct_rows
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.evaluation.ordering import sort_frame
from omnigraph.execute.evaluation.ranked_search import fuse_frame, score_frame
from omnigraph.execute.operators.beyond_memory import can_be_counted, can_be_grouped
from omnigraph.execute.operators.operator_binding import Binder, Operator, QueryRun
from omnigraph.execute.views.frame import Frame
from omnigraph.ir import reads
from omnigraph.plan.physical import Best
from omnigraph.values.scalars import VectorType


def _project(binder: Binder, op: reads.Project) -> Operator:
    below = binder.bind(op.input)

    def project(run: QueryRun, start: Frame) -> Frame:
        frame = below(run, start)
        values = {c.name: run.evaluator.array(c.value, frame) for c in op.columns}
        return Frame(frame.length, columns=values, weights=frame.weights)

    return project


def _distinct(binder: Binder, op: reads.Distinct) -> Operator:
    below = binder.bind(op.input)
    pattern = op.input.input if isinstance(op.input, reads.Project) else None

    def distinct(run: QueryRun, start: Frame) -> Frame:
        try:
            frame = below(run, start)
        except ResourceLimit as error:
            return binder.in_parts(pattern, run, start, error).distinct(op)
        return frame.take(distinct_rows(list(frame.columns.values()), frame.length))

    return distinct


def _aggregate(binder: Binder, op: reads.Aggregate) -> Operator:
    below = binder.bind(op.input)
    possible = can_be_counted(op) or can_be_grouped(op)

    def aggregate(run: QueryRun, start: Frame) -> Frame:
        try:
            frame = below(run, start)
        except ResourceLimit as error:
            parts = binder.in_parts(op.input if possible else None, run, start, error)
            return parts.grouped(op) if op.keys else parts.counted(op)
        return aggregate_frame(op, frame, run.evaluator)

    return aggregate


def _order(binder: Binder, op: reads.OrderBy) -> Operator:
    below = binder.bind(op.input)

    def order(run: QueryRun, start: Frame) -> Frame:
        try:
            frame = below(run, start)
        except ResourceLimit as error:
            return binder.in_parts(op.input, run, start, error).sorted(op)
        return sort_frame(op, frame, run.evaluator, None)

    return order


def _limit(binder: Binder, op: reads.Limit) -> Operator:
    if isinstance(op.input, reads.OrderBy):
        first_of = _first_of(binder, op.input)
    else:
        everything = binder.bind(op.input)

        def first_of(run: QueryRun, start: Frame, wanted: int | None) -> Frame:
            return everything(run, start)

    def limit(run: QueryRun, start: Frame) -> Frame:
        first, skip = _bounds(run.evaluator, op.count, op.offset)
        wanted = None if first is None else first + skip
        frame = first_of(run, start, wanted)
        if skip == 0 and (wanted is None or wanted >= frame.length):
            return frame
        end = frame.length if wanted is None else min(frame.length, wanted)
        return frame.take(np.arange(min(skip, end), end), ordered=True)

    return limit


def _first_of(
    binder: Binder, order: reads.OrderBy
) -> Callable[[QueryRun, Frame, int | None], Frame]:
    """Sorts only as many rows as the limit needs. A ranking asks its index for no more."""
    pattern: Any = order.input
    ranked = isinstance(pattern, Best)
    below = binder.bind(pattern.input if ranked else pattern)

    def best_of(run: QueryRun, start: Frame, wanted: int | None) -> Frame:
        sought = _sought(binder, run, pattern.search)
        rows = score_frame(pattern.search, below(run, start), sought, wanted)
        return sort_frame(order, rows, run.evaluator, wanted)

    def first_of(run: QueryRun, start: Frame, wanted: int | None) -> Frame:
        try:
            rows = below(run, start)
        except ResourceLimit as error:
            parts = binder.in_parts(pattern, run, start, error)
            return parts.sorted(order) if wanted is None else parts.first_of(order, wanted)
        return sort_frame(order, rows, run.evaluator, wanted)

    return best_of if ranked else first_of


def _bounds(evaluator: Evaluator, count: Any, offset: Any) -> tuple[int | None, int]:
    first = None if count is None else evaluator.scalar(count)
    skip = 0 if offset is None else evaluator.scalar(offset) or 0
    for name, value in (("limit", first), ("offset", skip)):
        if value is not None and value < 0:
            raise InvalidArgument(f"{name} must not be negative, got {value}")
    return first, skip


def _search(binder: Binder, op: reads.Search) -> Operator:
    below = binder.bind(op.input)
    return lambda run, start: score_frame(op, below(run, start), _sought(binder, run, op), None)


def _fuse(binder: Binder, op: reads.Fuse) -> Operator:
    below = binder.bind(op.input)
    searches = [s for s in _below(op) if isinstance(s, reads.Search)]
    return lambda run, start: fuse_frame(
        op, below(run, start), searches, run.evaluator.scalar(op.k)
    )


def _sought(binder: Binder, run: QueryRun, search: reads.Search) -> Any:
    """The text or vector of a search. The recorded model embeds a text for `nearest`."""
    query = run.evaluator.scalar(search.query)
    if search.function != "nearest" or not isinstance(query, str):
        return query
    node = binder.views.catalog.node_types[search.variable.types[0]]
    declared = next(p for p in node.properties if p.name == search.property)
    assert isinstance(declared.type, VectorType)
    embedding = embedding_of(declared)
    model = embedding.model if embedding is not None else None
    return embed_query(binder.provider, query, model, declared.type.width)


def _below(op: Any) -> Iterator[Any]:
    while not isinstance(op, reads.Rows):
        op = op.input
        yield op


ANSWER_OPERATORS: Mapping[type, Callable[[Binder, Any], Operator]] = {
    reads.Project: _project,
    reads.Distinct: _distinct,
    reads.Aggregate: _aggregate,
    reads.OrderBy: _order,
    reads.Limit: _limit,
    reads.Search: _search,
    reads.Fuse: _fuse,
}

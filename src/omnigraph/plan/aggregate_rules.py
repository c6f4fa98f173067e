"""Rules about aggregates: edges are counted instead of followed, duplicates are dropped early."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.ir.walk import variables_in
from omnigraph.plan.analysis import used_by
from omnigraph.plan.physical import DistinctOn, Follow, Weigh, with_input

_MULTIPLICATIVE = frozenset({"count", "sum", "avg", "min", "max"})
_SET_FUNCTIONS = frozenset({"min", "max"})


def count_instead_of_follow(op: Any) -> Any:
    """Rule: edges are counted, not followed, where no operator above reads their targets.

    `count($f)` over `$p knows $f` needs the degree of each `$p`, not its friends. A scan that only
    starts such edges is turned around: the friends of all persons are all persons, each as often
    as it has incoming edges.
    """
    match op:
        case reads.Aggregate(inner, keys, aggregates) if counts_only(aggregates):
            calls = tuple(count_rows(column) for column in aggregates)
            used = variables_in(c.value for c in (*keys, *calls))
            return replace(op, input=_turn_around(_count_tail(inner, used), used), aggregates=calls)
        case reads.Rows():
            return op
        case _:
            return with_input(op, count_instead_of_follow(op.input))


def counts_only(aggregates: tuple[reads.Column, ...]) -> bool:
    """Whether a row that stands for several equal rows gives the same aggregates."""
    calls = [c.value for c in aggregates]
    return all(isinstance(c, ex.AggregateCall) and c.function in _MULTIPLICATIVE for c in calls)


def count_rows(column: reads.Column) -> reads.Column:
    """`count($x)` of a variable that is always bound counts rows."""
    match column.value:
        case ex.AggregateCall("count", ex.Whole(variable), False) if not variable.nullable:
            return replace(column, value=replace(column.value, operand=None))
        case _:
            return column


def _count_tail(op: Any, used: frozenset[int]) -> Any:
    """The input with its last Expands weighed, down to the first whose ends are read above."""
    match op:
        case reads.Expand(inner, mode=reads.ExpandMode.EDGE, target_bound=False, path=None):
            ends = {op.target.id, *({op.edge.id} if op.edge else ())}
            if ends & used or not _single_way(op):
                return op
            return Weigh(_count_tail(inner, used | {op.source.id}), op)
        case _:
            return op


def _single_way(op: reads.Expand) -> bool:
    """Each pair of ends is met once.

    With several edge types or directions, the degrees do not tell how many distinct pairs exist.
    """
    if op.edge is not None:
        return True
    return len(op.steps) == 1 and op.steps[0].direction is not reads.Direction.BOTH


def _turn_around(op: Any, used: frozenset[int]) -> Any:
    """`NodeScan $p, Expand $p -> $m` with `$p` unused: scan `$m`, weigh by its incoming edges."""
    match op:
        case Weigh(inner):
            return replace(op, input=_turn_around(inner, used | used_by(op)))
        case reads.Expand(
            reads.NodeScan(reads.Rows(), scanned) as scan,
            mode=reads.ExpandMode.EDGE,
            target_bound=False,
            edge=None,
            path=None,
        ) if op.source.id == scanned.id and scanned.id not in used and _single_way(op):
            steps = tuple(replace(s, direction=s.direction.reversed) for s in op.steps)
            start = reads.NodeScan(scan.input, op.target)
            return Weigh(start, replace(op, source=op.target, target=scanned, steps=steps))
        case _:
            return op


def distinct_early(op: Any) -> Any:
    """Rule: where duplicate rows do not matter, they are dropped after every Expand.

    `count(distinct $f)` after two hops: each node in the middle is followed once, however many
    paths lead to it.
    """
    match op:
        case reads.Aggregate(inner, keys, aggregates) if _sets_only(aggregates):
            used = variables_in(c.value for c in (*keys, *aggregates))
            return replace(op, input=_thin(inner, used))
        case reads.Distinct(reads.Project(inner, columns) as project):
            used = variables_in(c.value for c in columns)
            return replace(op, input=replace(project, input=_thin(inner, used)))
        case reads.Rows():
            return op
        case _:
            return with_input(op, distinct_early(op.input))


def _sets_only(aggregates: tuple[reads.Column, ...]) -> bool:
    return bool(aggregates) and all(_ignores_repeats(column.value) for column in aggregates)


def _ignores_repeats(call: ex.Expression) -> bool:
    if not isinstance(call, ex.AggregateCall):
        return False
    return call.function in _SET_FUNCTIONS or (call.distinct and call.function == "count")


def _thin(op: Any, used: frozenset[int]) -> Any:
    """Put a DistinctOn after each Expand whose rows are read for one variable only."""
    match op:
        case reads.Expand() if op.path is None:
            inner = _thin(op.input, used - {op.target.id} | used_by(op))
            thinner = with_input(op, inner)
            return DistinctOn(thinner, used) if len(used) == 1 else thinner
        case Follow() if op.expand.path is None:
            inner = _thin(op.input, used - {op.expand.target.id} | used_by(op))
            thinner = with_input(op, inner)
            return DistinctOn(thinner, used) if len(used) == 1 else thinner
        case reads.Filter():
            return with_input(op, _thin(op.input, used | used_by(op)))
        case _:
            return op

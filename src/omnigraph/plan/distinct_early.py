"""Rule: where only the set of rows matters, equal ones go as soon as they can be equal.

`count(distinct $f)` after two hops: the middle nodes need to be followed once each, however many
ways lead there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.plan.physical import DistinctOn, Follow, with_input
from omnigraph.plan.usage import used_by, variables_in

_SET_FUNCTIONS = frozenset({"min", "max"})


def distinct_early(op: Any) -> Any:
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
    """Follow single-variable frontiers with a DistinctOn after each Expand."""
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

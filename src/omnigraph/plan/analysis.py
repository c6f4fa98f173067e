"""What rules need to know about a plan: variables read and bound, expressions that can fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from omnigraph.catalog.model import Catalog
from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.ir.walk import inner_patterns, map_patterns, variables_in, walk
from omnigraph.plan.physical import (
    Best,
    DistinctOn,
    Find,
    Follow,
    Keep,
    Weigh,
    WeighBetween,
    with_input,
)

_FALLIBLE = (ex.Arithmetic, ex.Negative, ex.Convert, ex.KeyText)
_SAFE_FUNCTIONS = frozenset(
    {"lower", "upper", "coalesce", "length", "now", "replace", "split", "trim", "regex_match"}
)


def used_by(op: Any) -> frozenset[int]:
    """Variables that this operator itself reads, without those of its input."""
    match op:
        case reads.Expand():
            bound = {op.target.id} if op.target_bound else set()
            return frozenset({op.source.id, *bound})
        case Follow(_, expand):
            return used_by(expand)
        case Weigh(_, expand):
            return frozenset({expand.source.id})
        case WeighBetween(_, first, second):
            return frozenset({first.source.id, second.target.id})
        case Find(_, _, look_up):
            return frozenset() if look_up is None else variables_in([look_up.wanted])
        case reads.AntiJoin() | reads.SemiJoin() | reads.Optional() | reads.ExistsFilter():
            inside = [used_inside(inner.pattern) for inner in inner_patterns(op)]
            return variables_in(expressions_of(op)).union(*inside)
        case reads.Search():
            return frozenset({op.variable.id}) | variables_in([op.query])
        case Best(_, search):
            return used_by(search)
        case DistinctOn(_, variables) | Keep(_, variables):
            return variables
        case _:
            return variables_in(expressions_of(op))


def used_inside(pattern: Any) -> frozenset[int]:
    """Variables that all operators of a sub-pattern read."""
    used: frozenset[int] = frozenset()
    while not isinstance(pattern, reads.Rows):
        used |= used_by(pattern)
        pattern = pattern.input
    return used


def shared_with(pattern: Any) -> tuple[ex.Variable, ...]:
    """Variables of the enclosing block with which a sub-pattern starts."""
    while not isinstance(pattern, reads.Rows):
        pattern = pattern.input
    return pattern.variables


def given_by(op: Any) -> frozenset[int]:
    """Variables that are bound in the rows of an operator."""
    given: set[int] = set()
    while not isinstance(op, reads.Rows):
        match op:
            case reads.NodeScan(_, variable) | Find(_, variable):
                given.add(variable.id)
            case reads.Expand():
                given |= _ends(op)
            case Follow(_, expand):
                given |= _ends(expand)
            case reads.Optional(_, _, variables):
                given |= {variable.id for variable in variables}
            case _:
                pass
        op = op.input
    return frozenset(given | {variable.id for variable in op.variables})


def is_between_its_ends(op: reads.Expand, catalog: Catalog) -> bool:
    """Whether each end of a hop in one direction has just the type that the edge type declares."""
    step = op.steps[0]
    edge = catalog.edge_types[step.edge]
    ends = (edge.source, edge.target)
    start, end = ends if step.direction is reads.Direction.OUT else ends[::-1]
    return op.source.types == (start,) and op.target.types == (end,)


def _ends(op: reads.Expand) -> set[int]:
    return {v.id for v in (op.target, op.edge, op.path) if v is not None}


def expressions_of(op: Any) -> tuple[ex.Expression, ...]:
    match op:
        case reads.Filter(_, predicate) | reads.ExistsFilter(_, _, predicate):
            return (predicate,)
        case reads.Project(_, columns):
            return tuple(column.value for column in columns)
        case reads.Aggregate(_, keys, aggregates):
            return tuple(column.value for column in (*keys, *aggregates))
        case reads.OrderBy(_, keys, ties):
            return (*(key.value for key in keys), *ties)
        case _:
            return ()


def may_fail(expression: ex.Expression) -> bool:
    """Some value makes the expression fail, so it must not see rows that another filter drops."""
    return any(
        isinstance(node, _FALLIBLE)
        or (isinstance(node, ex.Function) and _call_may_fail(node))
        or (isinstance(node, ex.Case) and _case_may_fail(node))
        for node in walk(expression)
    )


def _case_may_fail(case: ex.Case) -> bool:
    """A large U64 does not fit I64. The parts of the case are looked at by themselves."""
    values = [*(branch.value for branch in case.branches), case.otherwise]
    return case.type == ex.I64 and any(value.type == ex.U64 for value in values)


def _call_may_fail(call: ex.Function) -> bool:
    if call.name == "substring":
        # Constant bounds are checked when the query is compiled.
        return not all(isinstance(bound, ex.Constant) for bound in call.arguments[1:])
    return call.name not in _SAFE_FUNCTIONS


def everywhere(op: Any, change: Callable[[Any], Any]) -> Any:
    """Apply `change` to every operator from the top down, sub-patterns included."""
    if isinstance(op, reads.Rows):
        return op
    op = change(op)
    op = with_input(op, everywhere(op.input, change))
    return map_patterns(op, lambda pattern: everywhere(pattern, change))

"""Rule: a filter sits as close to where its variables come from as the meaning allows.

Below an optional block, a `not` block or a grouping the rows are fewer or carry less. Expressions
that can fail on a value stay: below, they might meet rows that would have been dropped first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.ir.walk import rewrite, walk
from omnigraph.plan.analysis import conjuncts_of, everywhere, given_by, may_fail, variables_in
from omnigraph.plan.estimates import Statistics
from omnigraph.plan.physical import Find, Follow, LookUp, with_input
from omnigraph.values.scalars import ListType, ScalarKind, ScalarType


def push_filters(op: Any) -> Any:
    match op:
        case reads.Rows():
            return op
        case reads.Filter(inner, predicate):
            below = push_filters(inner)
            for conjunct in conjuncts_of(predicate):
                below = _push(below, conjunct)
            return below
        case reads.AntiJoin(inner, pattern) | reads.Optional(inner, pattern):
            return replace(op, input=push_filters(inner), pattern=push_filters(pattern))
        case _:
            return with_input(op, push_filters(op.input))


def _push(op: Any, predicate: ex.Expression) -> Any:
    match op:
        case reads.AntiJoin() | reads.Optional() if not may_fail(predicate) and (
            variables_in([predicate]) <= given_by(op.input)
        ):
            return replace(op, input=_push(op.input, predicate))
        case reads.Aggregate(inner, keys) if keys and not may_fail(predicate):
            over_rows = _over_keys(predicate, keys)
            if over_rows is not None and not may_fail(over_rows):
                return replace(op, input=_push(inner, over_rows))
        case _:
            pass
    return reads.Filter(op, predicate)


def _over_keys(predicate: ex.Expression, keys: tuple[reads.Column, ...]) -> ex.Expression | None:
    """A predicate about group keys as one about rows; None when it asks for an aggregate."""
    values = {key.name: key.value for key in keys}
    asked = {node.name for node in walk(predicate) if isinstance(node, ex.ColumnRef)}
    if not asked or not asked <= values.keys():
        return None
    return rewrite(
        predicate, lambda node: values[node.name] if isinstance(node, ex.ColumnRef) else node
    )


_INTEGERS = frozenset({ScalarKind.I32, ScalarKind.I64, ScalarKind.U32, ScalarKind.U64})
_NAMING = _INTEGERS | {ScalarKind.STRING, ScalarKind.DATE, ScalarKind.DATETIME, ScalarKind.BOOL}


def filter_in_scan(op: Any, statistics: Statistics) -> Any:
    return everywhere(op, lambda found: _take_in(found, statistics))


def _take_in(op: Any, statistics: Statistics) -> Any:
    """`Filter … Filter NodeScan` as one Find, and the filters that also ask for others."""
    predicates: list[ex.Expression] = []
    below = op
    while isinstance(below, reads.Filter):
        predicates[:0] = conjuncts_of(below.predicate)
        below = below.input
    if not predicates or not isinstance(below, reads.NodeScan):
        return op
    variable = below.variable
    look_up, answered = _look_up(predicates, variable, statistics)
    own = [
        p
        for p in predicates
        if p is not answered and variables_in([p]) == {variable.id} and not may_fail(p)
    ]
    if look_up is None and not own:
        return op
    rows: Any = Find(below.input, variable, look_up, tuple(own))
    for predicate in predicates:
        if predicate is not answered and predicate not in own:
            rows = reads.Filter(rows, predicate)
    return rows


def _look_up(
    predicates: list[ex.Expression], variable: ex.Variable, statistics: Statistics
) -> tuple[LookUp | None, ex.Expression | None]:
    """The first conjunct that names entities, values of the query before values of the row."""
    found = []
    for predicate in predicates:
        look_up = _as_look_up(predicate, variable, statistics)
        if look_up is not None:
            found.append((look_up, predicate))
    return min(found, key=lambda pair: pair[0].per_row, default=(None, None))


def _as_look_up(
    predicate: ex.Expression, variable: ex.Variable, statistics: Statistics
) -> LookUp | None:
    match predicate:
        case ex.Compare("=", ex.PropertyOf() as name, wanted) if _names(name, variable, statistics):
            return _of(name, wanted, several=False)
        case ex.Compare("=", wanted, ex.PropertyOf() as name) if _names(name, variable, statistics):
            return _of(name, wanted, several=False)
        case ex.InList(ex.PropertyOf() as name, wanted) if _names(name, variable, statistics):
            return _of(name, wanted, several=True)
        case _:
            return None


def _names(name: ex.PropertyOf, variable: ex.Variable, statistics: Statistics) -> bool:
    return name.variable.id == variable.id and statistics.is_name(variable, name.property)


def _of(name: ex.PropertyOf, wanted: ex.Expression, *, several: bool) -> LookUp | None:
    asked = variables_in([wanted])
    per_row = bool(asked)
    if name.variable.id in asked or may_fail(wanted) or not _same_spelling(name, wanted, several):
        return None
    if per_row and several:
        return None
    if not per_row and not isinstance(wanted, ex.Constant | ex.ParameterRef):
        return None
    return LookUp(name.property, wanted, several, per_row)


def _same_spelling(name: ex.PropertyOf, wanted: ex.Expression, several: bool) -> bool:
    """Equal values are spelled alike: the same type, or two types of integers."""
    kind, given = name.type, wanted.type
    if several:
        if not isinstance(given, ListType):
            return False
        given = ScalarType(given.element)
    if not isinstance(kind, ScalarType) or not isinstance(given, ScalarType):
        return False
    both_integers = kind.kind in _INTEGERS and given.kind in _INTEGERS
    return kind.kind in _NAMING and (both_integers or kind == given)


def filter_in_expand(op: Any) -> Any:
    return everywhere(op, _take_in_filter_in_expand)


def _take_in_filter_in_expand(op: Any) -> Any:
    predicates: list[ex.Expression] = []
    below = op
    while isinstance(below, reads.Filter):
        predicates[:0] = conjuncts_of(below.predicate)
        below = below.input
    if not isinstance(below, reads.Expand) or below.mode is not reads.ExpandMode.EDGE:
        return op
    edge = {below.edge.id} if below.edge is not None else set()
    target = set() if below.target_bound else {below.target.id}
    on_edge, on_target, others = [], [], []
    for predicate in predicates:
        asked = variables_in([predicate])
        if asked and not may_fail(predicate) and asked == edge:
            on_edge.append(predicate)
        elif asked and not may_fail(predicate) and asked == target:
            on_target.append(predicate)
        else:
            others.append(predicate)
    if not on_edge and not on_target:
        return op
    rows: Any = Follow(below.input, below, tuple(on_edge), tuple(on_target))
    for predicate in others:
        rows = reads.Filter(rows, predicate)
    return rows

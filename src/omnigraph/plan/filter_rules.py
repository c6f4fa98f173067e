"""Rules about filters: below blocks and groupings, into scans, into expansions.

An expression that can fail on some value is never moved, because at an earlier place it might meet
rows that the plan would have dropped before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.ir.walk import conjuncts_of, map_patterns, rewrite, variables_in, walk
from omnigraph.plan.analysis import everywhere, given_by, may_fail
from omnigraph.plan.estimates import Statistics
from omnigraph.plan.physical import Find, Follow, LookUp, with_input
from omnigraph.values.scalars import INTEGER_KINDS, ListType, ScalarKind, ScalarType

_LOOKED_UP = INTEGER_KINDS | {
    ScalarKind.STRING,
    ScalarKind.DATE,
    ScalarKind.DATETIME,
    ScalarKind.BOOL,
}
"""Kinds of which equal values have one spelling, so that a lookup by id or key finds them."""


def push_filters(op: Any) -> Any:
    """Rule: a filter is applied before a block or a grouping if it can be.

    Blocks are `optional`, `not` and `exists`. There are fewer rows there, or shorter ones.
    """
    match op:
        case reads.Rows():
            return op
        case reads.Filter(inner, predicate):
            below = push_filters(inner)
            for conjunct in conjuncts_of(predicate):
                below = _push(below, conjunct)
            return below
        case _:
            return map_patterns(with_input(op, push_filters(op.input)), push_filters)


def _push(op: Any, predicate: ex.Expression) -> Any:
    match op:
        case reads.AntiJoin() | reads.SemiJoin() | reads.ExistsFilter() | reads.Optional() if (
            not may_fail(predicate) and variables_in([predicate]) <= given_by(op.input)
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
    """A predicate on group keys as a predicate on rows; None when it reads an aggregate."""
    values = {key.name: key.value for key in keys}
    asked = {node.name for node in walk(predicate) if isinstance(node, ex.ColumnRef)}
    if not asked or not asked <= values.keys():
        return None
    return rewrite(
        predicate, lambda node: values[node.name] if isinstance(node, ex.ColumnRef) else node
    )


def filter_in_scan(op: Any, statistics: Statistics) -> Any:
    """Rule: a scan applies the filters on its variable; an id or key becomes a lookup.

    `$p.id = …`, the key, or `in` a list of them is looked up, also when the value comes from
    another variable of the row: that is a join on the id instead of a product of two types.
    """
    return everywhere(op, lambda found: _into_scan(found, statistics))


def _into_scan(op: Any, statistics: Statistics) -> Any:
    """`Filter … Filter NodeScan` as one Find, followed by the filters that read other variables."""
    below, predicates = _without_filters(op)
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
    """The lookup and its conjunct; a value of the query is preferred to a value of the row."""
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
        case ex.Compare("=", ex.PropertyOf() as name, wanted) if _is_id_or_key(
            name, variable, statistics
        ):
            return _look_up_by(name, wanted, several=False)
        case ex.Compare("=", wanted, ex.PropertyOf() as name) if _is_id_or_key(
            name, variable, statistics
        ):
            return _look_up_by(name, wanted, several=False)
        case ex.InList(ex.PropertyOf() as name, wanted) if _is_id_or_key(
            name, variable, statistics
        ):
            return _look_up_by(name, wanted, several=True)
        case _:
            return None


def _is_id_or_key(name: ex.PropertyOf, variable: ex.Variable, statistics: Statistics) -> bool:
    return name.variable.id == variable.id and statistics.is_id_or_key(variable, name.property)


def _look_up_by(name: ex.PropertyOf, wanted: ex.Expression, *, several: bool) -> LookUp | None:
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
    """Equal values of the two types have the same spelling."""
    kind, given = name.type, wanted.type
    if several:
        if not isinstance(given, ListType):
            return False
        given = ScalarType(given.element)
    if not isinstance(kind, ScalarType) or not isinstance(given, ScalarType):
        return False
    both_integers = kind.kind in INTEGER_KINDS and given.kind in INTEGER_KINDS
    return kind.kind in _LOOKED_UP and (both_integers or kind == given)


def filter_in_expand(op: Any) -> Any:
    """Rule: an expansion applies the filters on its edge and on its target.

    A predicate on the edge alone, or on the target alone, is evaluated before the row with all
    other variables is made. Where there are more edges than entities, the executor evaluates it
    once per entity.
    """
    return everywhere(op, _into_expand)


def _into_expand(op: Any) -> Any:
    below, predicates = _without_filters(op)
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


def _without_filters(op: Any) -> tuple[Any, list[ex.Expression]]:
    """The first operator below the filters on top, and the conjuncts of these filters in order."""
    predicates: list[ex.Expression] = []
    while isinstance(op, reads.Filter):
        predicates[:0] = conjuncts_of(op.predicate)
        op = op.input
    return op, predicates

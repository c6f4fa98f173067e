"""Expressions over one row, in three-valued logic: None is unknown."""

from __future__ import annotations

import operator as op
from collections.abc import Callable, Iterable
from typing import Any

from omnigraph.errors import InvalidArgument
from omnigraph.ir import expressions as ex
from omnigraph.values.scalars import NUMERIC_KINDS, ScalarType
from omnigraph.values.text_terms import MAX_EDITS
from omnigraph_testing.reference import scalar_functions
from omnigraph_testing.reference.numbers import arithmetic, fitted
from omnigraph_testing.reference.ordering import comparable
from omnigraph_testing.reference.rows import Row, World
from omnigraph_testing.reference.text import text_matches


def evaluate(expression: ex.Expression, row: Row, world: World) -> Any:
    """The value; a node, edge or path stays an object until the row leaves the evaluator."""
    return _EVALUATE[type(expression)](expression, row, world)


def holds(predicate: ex.Expression, row: Row, world: World) -> bool:
    return evaluate(predicate, row, world) is True


def _property(e: ex.PropertyOf, row: Row, _world: World) -> Any:
    entity = row.entity(e.variable)
    return None if entity is None else entity.get(e.property)


def _type_name(e: ex.TypeName, row: Row, _world: World) -> Any:
    entity = row.entity(e.variable)
    return None if entity is None else entity.type


def _arithmetic(e: ex.Arithmetic, row: Row, world: World) -> Any:
    left, right = evaluate(e.left, row, world), evaluate(e.right, row, world)
    if left is None or right is None:
        return None
    if isinstance(left, str):
        return left + right
    return arithmetic(e.operator, left, right, e.type)


def _negative(e: ex.Negative, row: Row, world: World) -> Any:
    value = evaluate(e.operand, row, world)
    return None if value is None else fitted(-value, e.type, f"-{value}")


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": op.eq,
    "!=": op.ne,
    "<": op.lt,
    "<=": op.le,
    ">": op.gt,
    ">=": op.ge,
    "contains": lambda whole, part: part in whole,
    "starts_with": lambda whole, part: whole.startswith(part),
}


def _compare(e: ex.Compare, row: Row, world: World) -> bool | None:
    left, right = evaluate(e.left, row, world), evaluate(e.right, row, world)
    if left is None or right is None:
        return None
    return _COMPARE[e.operator](comparable(left), comparable(right))


def _in_list(e: ex.InList, row: Row, world: World) -> bool | None:
    value, items = evaluate(e.operand, row, world), evaluate(e.collection, row, world)
    if value is None or items is None:
        return None
    return any_of(None if item is None else value == item for item in items)


def any_of(values: Iterable[bool | None]) -> bool | None:
    known = list(values)
    if True in known:
        return True
    return None if None in known else False


def all_of(values: Iterable[bool | None]) -> bool | None:
    known = list(values)
    if False in known:
        return False
    return None if None in known else True


def _not(e: ex.Not, row: Row, world: World) -> bool | None:
    value = evaluate(e.operand, row, world)
    return None if value is None else not value


def _function(e: ex.Function, row: Row, world: World) -> Any:
    if e.name == "now":
        return world.now
    values = [evaluate(argument, row, world) for argument in e.arguments]
    if e.name == "coalesce":
        found = next((value for value in values if value is not None), None)
        return None if found is None else _as_type(found, e.type)
    if None in values:
        return None
    return scalar_functions.call(e.name, values, e.type)


def _as_type(value: Any, kind: ex.ExpressionType) -> Any:
    is_number = isinstance(kind, ScalarType) and kind.kind in NUMERIC_KINDS
    return fitted(value, kind, "coalesce") if is_number else value


def _text_match(e: ex.TextMatch, row: Row, world: World) -> bool | None:
    text, query = evaluate(e.field, row, world), evaluate(e.query, row, world)
    if text is None or query is None:
        return None
    edits = None if e.edits is None else evaluate(e.edits, row, world)
    if edits is not None and not 0 <= edits <= MAX_EDITS:
        raise InvalidArgument(f"{edits} edits")
    return text_matches(e.function, text, query, edits)


def _only_elsewhere(e: ex.Expression, _row: Row, _world: World) -> Any:
    raise TypeError(f"{type(e).__name__} has no value in a read's row")


_EVALUATE: dict[type, Callable[[Any, Row, World], Any]] = {
    ex.Constant: lambda e, _row, _world: e.value,
    ex.ParameterRef: lambda e, _row, world: world.parameters[e.name],
    ex.PropertyOf: _property,
    ex.Whole: lambda e, row, _world: row.bound(e.variable),
    ex.TypeName: _type_name,
    ex.ColumnRef: lambda e, row, _world: row.columns[e.name],
    ex.ScoreRef: lambda e, row, _world: row.scores[e.slot],
    ex.Arithmetic: _arithmetic,
    ex.Negative: _negative,
    ex.Compare: _compare,
    ex.InList: _in_list,
    ex.ListOf: lambda e, row, world: [evaluate(item, row, world) for item in e.items],
    ex.IsNull: lambda e, row, world: (evaluate(e.operand, row, world) is None) != e.negated,
    ex.Not: _not,
    ex.And: lambda e, row, world: all_of(evaluate(o, row, world) for o in e.operands),
    ex.Or: lambda e, row, world: any_of(evaluate(o, row, world) for o in e.operands),
    ex.Function: _function,
    ex.TextMatch: _text_match,
    ex.RowProperty: _only_elsewhere,
    ex.Convert: _only_elsewhere,
    ex.KeyText: _only_elsewhere,
    ex.AggregateCall: _only_elsewhere,
}

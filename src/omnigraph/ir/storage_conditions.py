"""The parts of a predicate that storage can test, as conditions.

These parts have no condition, and only an executor tests them:

- comparisons of floats, and with a value that the type of the column cannot hold, for example an
  I32 with 2^40 (`is_exact` says why);
- lists, vectors and blobs;
- everything that is not one column against a constant or a parameter: functions, arithmetic, two
  columns, `or`, `not`, `contains`, `starts_with` and text search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from omnigraph.ir import expressions as ex
from omnigraph.ir.walk import conjuncts_of
from omnigraph.values.conditions import LONGEST_LIST, Comparison, Condition, is_exact
from omnigraph.values.scalars import INTEGER_KINDS, EnumType, ListType, ScalarKind, ScalarType

_FLIPPED: dict[str, Comparison] = {
    "=": "=",
    "!=": "!=",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}
_COMPARISONS: dict[str, Comparison] = {flipped: flipped for flipped in _FLIPPED.values()}

Given = ex.Constant | ex.ParameterRef
Plain = Callable[[Given], Any]
"""Gives the Python value of a constant or a parameter."""


def conditions_of(
    predicates: Iterable[ex.Expression], plain: Plain, longest_list: int | None = LONGEST_LIST
) -> tuple[Condition, ...]:
    """Conditions that hold for every row for which all of the predicates are true.

    The predicates must be about one entity, because a condition does not say whose column it means.
    A list that is longer than `longest_list` has no condition.
    """
    found = []
    for predicate in predicates:
        for conjunct in conjuncts_of(predicate):
            test = _test_of(conjunct)
            condition = None if test is None else _bound(test, plain)
            if condition is not None and not _is_longer(condition, longest_list):
                found.append(condition)
    return tuple(found)


def may_have_condition(conjunct: ex.Expression) -> bool:
    """Whether a conjunct has a condition for some values of its parameters."""
    return _test_of(conjunct) is not None


@dataclass(frozen=True, slots=True)
class _Test:
    """A conjunct before the value of its parameter is known; a test for NULL has no `given`."""

    stored: ex.PropertyOf | ex.RowProperty
    operator: Comparison | Literal["in", "is null", "is not null"]
    given: Given | None


def _test_of(conjunct: ex.Expression) -> _Test | None:
    match conjunct:
        case ex.Compare(
            operator,
            (ex.PropertyOf() | ex.RowProperty()) as stored,
            (ex.Constant() | ex.ParameterRef()) as given,
        ) if operator in _COMPARISONS and _are_alike(stored.type, given.type):
            return _Test(stored, _COMPARISONS[operator], given)
        case ex.Compare(
            operator,
            (ex.Constant() | ex.ParameterRef()) as given,
            (ex.PropertyOf() | ex.RowProperty()) as stored,
        ) if operator in _FLIPPED and _are_alike(stored.type, given.type):
            return _Test(stored, _FLIPPED[operator], given)
        case ex.InList(
            (ex.PropertyOf() | ex.RowProperty()) as stored,
            (ex.Constant() | ex.ParameterRef()) as given,
        ) if isinstance(given.type, ListType) and _are_alike(
            stored.type, ScalarType(given.type.element)
        ):
            return _Test(stored, "in", given)
        case ex.IsNull((ex.PropertyOf() | ex.RowProperty()) as stored, negated) if isinstance(
            stored.type, EnumType | ScalarType
        ):
            return _Test(stored, "is not null" if negated else "is null", None)
        case _:
            return None


def _are_alike(stored: ex.ExpressionType, given: ex.ExpressionType) -> bool:
    """Both are texts, both are integers, or both are of the same type that is no float."""
    if isinstance(given, ex.NullType):
        return isinstance(stored, EnumType | ScalarType)
    return _family(stored) is not None and _family(stored) == _family(given)


def _family(kind: ex.ExpressionType) -> str | None:
    match kind:
        case EnumType() | ScalarType(ScalarKind.STRING):
            return "text"
        case ScalarType(number) if number in INTEGER_KINDS:
            return "integer"
        case ScalarType((ScalarKind.BOOL | ScalarKind.DATE | ScalarKind.DATETIME) as same):
            return same.value
        case _:
            return None


def _bound(test: _Test, plain: Plain) -> Condition | None:
    """None when storage cannot compare the value exactly."""
    column = test.stored.property
    if test.given is None:
        return Condition(column, test.operator)
    value = plain(test.given)
    if value is None:
        return Condition(column, "in")  # a comparison with NULL is never true
    values = tuple(value) if test.operator == "in" else (value,)
    if not all(is_exact(each, test.stored.type) for each in values):
        return None
    return Condition(column, test.operator, values)


def _is_longer(condition: Condition, longest_list: int | None) -> bool:
    return longest_list is not None and len(condition.values) > longest_list

"""Expressions over one row, in three-valued logic: None is unknown.

Arithmetic is exact on integers and finite on floats. A result that does not fit is an error.
"""

from __future__ import annotations

import datetime as dt
import math
import operator as op
from collections.abc import Callable, Iterable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InvalidArgument
from omnigraph.ir import expressions as ex
from omnigraph.values.scalars import (
    FLOAT_KINDS,
    INTEGER_BOUNDS,
    INTEGER_KINDS,
    NUMERIC_KINDS,
    ScalarType,
)
from omnigraph.values.temporal import parse_date, parse_moment
from omnigraph.values.text_terms import MAX_EDITS, default_edits, terms
from omnigraph_testing.reference.rows import EntityPath, Evaluation, Row, comparable

Number = int | float

# A context in which every double, and every number of digits asked for, is exact.
_WIDE = Context(prec=1_500)


def value_of(expression: ex.Expression, row: Row, evaluation: Evaluation) -> Any:
    """The value. Nodes, edges and paths stay objects until the row leaves the evaluator."""
    return _EVALUATE[type(expression)](expression, row, evaluation)


def holds(predicate: ex.Expression, row: Row, evaluation: Evaluation) -> bool:
    return value_of(predicate, row, evaluation) is True


def _property(e: ex.PropertyOf, row: Row, _evaluation: Evaluation) -> Any:
    entity = row.entity(e.variable)
    return None if entity is None else entity.get(e.property)


def _type_name(e: ex.TypeName, row: Row, _evaluation: Evaluation) -> Any:
    entity = row.entity(e.variable)
    return None if entity is None else entity.type


def _arithmetic(e: ex.Arithmetic, row: Row, evaluation: Evaluation) -> Any:
    left, right = value_of(e.left, row, evaluation), value_of(e.right, row, evaluation)
    if left is None or right is None:
        return None
    if isinstance(left, str):
        return left + right
    return arithmetic(e.operator, left, right, e.type)


def _negative(e: ex.Negative, row: Row, evaluation: Evaluation) -> Any:
    value = value_of(e.operand, row, evaluation)
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


def _compare(e: ex.Compare, row: Row, evaluation: Evaluation) -> bool | None:
    left, right = value_of(e.left, row, evaluation), value_of(e.right, row, evaluation)
    if left is None or right is None:
        return None
    return _COMPARE[e.operator](comparable(left), comparable(right))


def _in_list(e: ex.InList, row: Row, evaluation: Evaluation) -> bool | None:
    value, items = value_of(e.operand, row, evaluation), value_of(e.collection, row, evaluation)
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


def _not(e: ex.Not, row: Row, evaluation: Evaluation) -> bool | None:
    value = value_of(e.operand, row, evaluation)
    return None if value is None else not value


def _case(e: ex.Case, row: Row, evaluation: Evaluation) -> Any:
    taken = next((b.value for b in e.branches if holds(b.condition, row, evaluation)), e.otherwise)
    value = value_of(taken, row, evaluation)
    return None if value is None else _as_type(value, e.type)


def _function(e: ex.Function, row: Row, evaluation: Evaluation) -> Any:
    if e.name == "now":
        return evaluation.now
    values = [value_of(argument, row, evaluation) for argument in e.arguments]
    if e.name == "coalesce":
        found = next((value for value in values if value is not None), None)
        return None if found is None else _as_type(found, e.type)
    if None in values:
        return None
    return call_function(e.name, values, e.type)


def _as_type(value: Any, kind: ex.ExpressionType) -> Any:
    is_number = isinstance(kind, ScalarType) and kind.kind in NUMERIC_KINDS
    return fitted(value, kind, "a value") if is_number else value


def _text_match(e: ex.TextMatch, row: Row, evaluation: Evaluation) -> bool | None:
    text, query = value_of(e.field, row, evaluation), value_of(e.query, row, evaluation)
    if text is None or query is None:
        return None
    edits = None if e.edits is None else value_of(e.edits, row, evaluation)
    if edits is not None and not 0 <= edits <= MAX_EDITS:
        raise InvalidArgument(f"{edits} edits")
    return text_matches(e.function, text, query, edits)


def _only_elsewhere(e: ex.Expression, _row: Row, _evaluation: Evaluation) -> Any:
    raise TypeError(f"{type(e).__name__} does not occur in the rows of a read")


def fitted(value: Number, kind: ex.ExpressionType, what: str) -> Number:
    """The value as exactly this type."""
    if not isinstance(kind, ScalarType):
        raise TypeError(f"{kind} is not a number type")
    if kind.kind in INTEGER_KINDS:
        low, high = INTEGER_BOUNDS[kind.kind]
        if not isinstance(value, int) or not low <= value <= high:
            raise InvalidArgument(f"{what}: {value} does not fit {kind}")
        return value
    if kind.kind not in FLOAT_KINDS or not math.isfinite(value):
        raise InvalidArgument(f"{what}: {value} does not fit {kind}")
    return float(value)


def arithmetic(operator: str, left: Number, right: Number, kind: ex.ExpressionType) -> Number:
    if operator in "/%" and right == 0:
        raise InvalidArgument(f"division by zero: {left} {operator} {right}")
    if isinstance(left, int) and isinstance(right, int):
        return fitted(_exact(operator, left, right), kind, f"{left} {operator} {right}")
    try:
        value = _inexact(operator, float(left), float(right))
    except OverflowError:
        value = math.inf
    return fitted(value, kind, f"{left} {operator} {right}")


def _exact(operator: str, left: int, right: int) -> int:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return _truncated(left, right)
        case _:
            return left - right * _truncated(left, right)


def _truncated(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _inexact(operator: str, left: float, right: float) -> float:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left / right
        case _:
            return math.fmod(left, right)


def rounded(value: Number, digits: int) -> Number:
    """Halves away from zero, by the exact value of a float."""
    exact = Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, _WIDE)
    return int(exact) if isinstance(value, int) else float(exact)


def call_function(name: str, arguments: list[Any], kind: ex.ExpressionType) -> Any:
    """The value of a function of values that are not NULL."""
    return _FUNCTIONS[name](*arguments, kind)


def _length(value: Any, _kind: ex.ExpressionType) -> int:
    return value.length if isinstance(value, EntityPath) else len(value)


def _abs(value: Any, kind: ex.ExpressionType) -> Any:
    return fitted(abs(value), kind, f"abs({value})")


def _round(value: Any, *rest: Any) -> Any:
    digits, kind = rest if len(rest) == 2 else (0, rest[0])
    return fitted(rounded(value, digits), kind, f"round({value}, {digits})")


def _date(value: Any, _kind: ex.ExpressionType) -> dt.date:
    if isinstance(value, str):
        found = parse_date(value)
        if found is None:
            raise InvalidArgument(f'"{value}" is not a date')
        return found
    return value.date() if isinstance(value, dt.datetime) else value


def _datetime(value: Any, _kind: ex.ExpressionType) -> dt.datetime:
    if isinstance(value, str):
        found = parse_moment(value)
        if found is None:
            raise InvalidArgument(f'"{value}" is not a moment with an offset')
        return found
    if isinstance(value, dt.datetime):
        return value
    return dt.datetime.combine(value, dt.time(), dt.UTC)


def _substring(text: str, start: int, *rest: Any) -> str:
    length = rest[0] if len(rest) == 2 else len(text)
    if start < 1 or length < 0:
        raise InvalidArgument(f"substring({text!r}, {start}, {length})")
    return "".join(c for number, c in enumerate(text, 1) if start <= number < start + length)


def _split(text: str, separator: str, _kind: ex.ExpressionType) -> list[str]:
    if separator == "":
        return list(text) if text else [""]
    return text.split(separator)


def _trim(text: str, *rest: Any) -> str:
    return text.strip(rest[0]) if len(rest) == 2 else text.strip()


def _regex_match(text: str, pattern: str, _kind: ex.ExpressionType) -> bool:
    # RE2 is the definition of the language, so there is no second implementation to compare.
    found: bool = pc.match_substring_regex(pa.scalar(text), pattern=pattern).as_py()
    return found


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "substring": _substring,
    "replace": lambda text, old, new, _: text if old == "" else text.replace(old, new),
    "split": _split,
    "trim": _trim,
    "regex_match": _regex_match,
    "lower": lambda value, _: value.lower(),
    "upper": lambda value, _: value.upper(),
    "length": _length,
    "abs": _abs,
    "round": _round,
    "date": _date,
    "datetime": _datetime,
    "year": lambda value, _: value.year,
    "month": lambda value, _: value.month,
    "day": lambda value, _: value.day,
    "weekday": lambda value, _: value.isoweekday(),
    "hour": lambda value, _: value.hour,
    "minute": lambda value, _: value.minute,
    "second": lambda value, _: value.second,
}


def edit_distance(left: str, right: str) -> int:
    """Levenshtein: insertions, deletions and replacements of one character."""
    previous = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        current = [i]
        for j, b in enumerate(right, 1):
            current.append(min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (a != b)))
        previous = current
    return previous[-1]


def text_matches(function: str, text: str, query: str, edits: int | None) -> bool:
    """`search`: any term, `match_text`: all terms, `fuzzy`: any term within its edits."""
    words, wanted = set(terms(text)), terms(query)
    match function:
        case "search":
            return any(term in words for term in wanted)
        case "match_text":
            return bool(wanted) and all(term in words for term in wanted)
        case "fuzzy":
            return any(
                edit_distance(term, word) <= (default_edits(term) if edits is None else edits)
                for term in wanted
                for word in words
            )
        case _:
            raise ValueError(function)


_EVALUATE: dict[type, Callable[[Any, Row, Evaluation], Any]] = {
    ex.Constant: lambda e, _row, _evaluation: e.value,
    ex.ParameterRef: lambda e, _row, evaluation: evaluation.parameters[e.name],
    ex.PropertyOf: _property,
    ex.Whole: lambda e, row, _evaluation: row.bound(e.variable),
    ex.TypeName: _type_name,
    ex.ColumnRef: lambda e, row, _evaluation: row.columns[e.name],
    ex.Matched: lambda e, row, _evaluation: row.columns[e.pattern],
    ex.ScoreRef: lambda e, row, _evaluation: row.scores[e.slot],
    ex.Arithmetic: _arithmetic,
    ex.Negative: _negative,
    ex.Compare: _compare,
    ex.InList: _in_list,
    ex.ListOf: lambda e, row, evaluation: [value_of(item, row, evaluation) for item in e.items],
    ex.IsNull: lambda e, row, evaluation: (
        (value_of(e.operand, row, evaluation) is None) != e.negated
    ),
    ex.Not: _not,
    ex.And: lambda e, row, evaluation: all_of(value_of(o, row, evaluation) for o in e.operands),
    ex.Or: lambda e, row, evaluation: any_of(value_of(o, row, evaluation) for o in e.operands),
    ex.Case: _case,
    ex.Function: _function,
    ex.TextMatch: _text_match,
    ex.RowProperty: _only_elsewhere,
    ex.Convert: _only_elsewhere,
    ex.KeyText: _only_elsewhere,
    ex.AggregateCall: _only_elsewhere,
}

"""The scalar functions of the registry over values that are not NULL."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from omnigraph.errors import InvalidArgument
from omnigraph.ir.expressions import ExpressionType
from omnigraph.values.temporal import parse_date, parse_moment
from omnigraph_testing.reference.numbers import fitted, rounded
from omnigraph_testing.reference.rows import Path


def call(name: str, arguments: list[Any], kind: ExpressionType) -> Any:
    """The value of a function; `now`, `coalesce` and `type` are not values of their arguments."""
    return _FUNCTIONS[name](*arguments, kind)


def _length(value: Any, _kind: ExpressionType) -> int:
    return value.length if isinstance(value, Path) else len(value)


def _abs(value: Any, kind: ExpressionType) -> Any:
    return fitted(abs(value), kind, f"abs({value})")


def _round(value: Any, *rest: Any) -> Any:
    digits, kind = rest if len(rest) == 2 else (0, rest[0])
    return fitted(rounded(value, digits), kind, f"round({value}, {digits})")


def _date(value: Any, _kind: ExpressionType) -> dt.date:
    if isinstance(value, str):
        found = parse_date(value)
        if found is None:
            raise InvalidArgument(f'"{value}" is not a date')
        return found
    return value.date() if isinstance(value, dt.datetime) else value


def _datetime(value: Any, _kind: ExpressionType) -> dt.datetime:
    if isinstance(value, str):
        found = parse_moment(value)
        if found is None:
            raise InvalidArgument(f'"{value}" is not a moment with an offset')
        return found
    if isinstance(value, dt.datetime):
        return value
    return dt.datetime.combine(value, dt.time(), dt.UTC)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
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

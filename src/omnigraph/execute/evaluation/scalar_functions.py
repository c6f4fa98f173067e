"""Arithmetic and scalar functions: exact integers, loud overflow, NULL in gives NULL out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InvalidArgument
from omnigraph.execute.evaluation.value_arrays import as_type

_CHECKED: dict[str, Callable[[Any, Any], Any]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "/": pc.divide_checked,
}

_HALF = "half_towards_infinity"
_MOST_DIGITS = 400


def arithmetic(operator: str, left: Any, right: Any, kind: pa.DataType) -> Any:
    """`+ - * / %` on numbers of type `kind`; `+` joins strings."""
    if pa.types.is_string(kind):
        return pc.binary_join_element_wise(left, right, "")
    try:
        left, right = as_type(left, kind), as_type(right, kind)
        if operator == "%":
            return _remainder(left, right)
        return _CHECKED[operator](left, right)
    except pa.ArrowInvalid as error:
        reason = "division by zero" if "divide by zero" in str(error) else f"overflow of {kind}"
        raise InvalidArgument(f"{operator!r} failed: {reason}") from error


def call_function(name: str, arguments: Sequence[Any], kind: pa.DataType) -> Any:
    try:
        return _FUNCTIONS[name](arguments, kind)
    except pa.ArrowInvalid as error:
        raise InvalidArgument(f"{name}() failed: {error}", function=name) from error


def _remainder(left: Any, right: Any) -> Any:
    """Has the sign of the left side, as integer division truncates towards zero."""
    quotient = pc.divide_checked(left, right)
    if pa.types.is_floating(left.type):
        quotient = pc.trunc(quotient)
    return pc.subtract_checked(left, pc.multiply_checked(quotient, right))


def _length(arguments: Sequence[Any], kind: pa.DataType) -> Any:
    (value,) = arguments
    if pa.types.is_string(value.type):
        return pc.utf8_length(value).cast(kind)
    return pc.list_value_length(value).cast(kind)


def _round(arguments: Sequence[Any], kind: pa.DataType) -> Any:
    value, *digits = arguments
    places = digits[0] if digits else pa.scalar(0)
    if isinstance(places, pa.Scalar):
        if not places.is_valid:
            return pa.scalar(None, kind)
        # No number has more digits, and Arrow counts them one by one.
        ndigits = max(-_MOST_DIGITS, min(places.as_py(), _MOST_DIGITS))
        return pc.round(value, ndigits=ndigits, round_mode=_HALF).cast(kind)
    bounded = pc.min_element_wise(places.cast(pa.int64()), _MOST_DIGITS, skip_nulls=False)
    bounded = pc.max_element_wise(bounded, -_MOST_DIGITS, skip_nulls=False).cast(pa.int32())
    return pc.round_binary(value, bounded, round_mode=_HALF).cast(kind)


def _date(arguments: Sequence[Any], kind: pa.DataType) -> Any:
    (value,) = arguments
    if pa.types.is_timestamp(value.type):
        return pc.floor_temporal(value, unit="day").cast(pa.date32())
    return value.cast(kind)


def _weekday(arguments: Sequence[Any], kind: pa.DataType) -> Any:
    return pc.day_of_week(arguments[0], count_from_zero=False, week_start=1).cast(kind)


def _part(function: Callable[[Any], Any]) -> Callable[[Sequence[Any], pa.DataType], Any]:
    return lambda arguments, kind: function(arguments[0]).cast(kind)


def _coalesce(arguments: Sequence[Any], kind: pa.DataType) -> Any:
    return pc.coalesce(*(as_type(a, kind) for a in arguments))


_FUNCTIONS: dict[str, Callable[[Sequence[Any], pa.DataType], Any]] = {
    "coalesce": _coalesce,
    "lower": _part(pc.utf8_lower),
    "upper": _part(pc.utf8_upper),
    "length": _length,
    "abs": _part(pc.abs_checked),
    "round": _round,
    "date": _date,
    "datetime": _part(lambda value: value),
    "year": _part(pc.year),
    "month": _part(pc.month),
    "day": _part(pc.day),
    "weekday": _weekday,
    "hour": _part(pc.hour),
    "minute": _part(pc.minute),
    "second": _part(pc.second),
}

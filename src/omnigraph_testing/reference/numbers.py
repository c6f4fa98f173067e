"""Arithmetic: exact on integers, finite on floats, an error where the result does not fit."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal

from omnigraph.errors import InvalidArgument
from omnigraph.ir.expressions import ExpressionType
from omnigraph.values.scalars import FLOAT_KINDS, INTEGER_BOUNDS, INTEGER_KINDS, ScalarType

Number = int | float

# Every double, and every digit asked for, is exact in it.
_WIDE = Context(prec=1_500)


def fitted(value: Number, kind: ExpressionType, what: str) -> Number:
    """The value as exactly this type."""
    if not isinstance(kind, ScalarType):
        raise TypeError(f"{kind} is no number type")
    if kind.kind in INTEGER_KINDS:
        low, high = INTEGER_BOUNDS[kind.kind]
        if not isinstance(value, int) or not low <= value <= high:
            raise InvalidArgument(f"{what}: {value} does not fit {kind}")
        return value
    if kind.kind not in FLOAT_KINDS or not math.isfinite(value):
        raise InvalidArgument(f"{what}: {value} does not fit {kind}")
    return float(value)


def arithmetic(operator: str, left: Number, right: Number, kind: ExpressionType) -> Number:
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
    """Halves away from zero, on the exact value of a float."""
    exact = Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, _WIDE)
    return int(exact) if isinstance(value, int) else float(exact)

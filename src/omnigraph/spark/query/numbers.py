"""Numbers: exact integers, loud overflow; two types are compared as one that holds both."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F
from pyspark.sql import types as spark

from omnigraph.ir import expressions as ex
from omnigraph.spark.column_types import spark_type
from omnigraph.spark.query.rows import SparkColumn
from omnigraph.values.scalars import (
    FLOAT_KINDS,
    INTEGER_BOUNDS,
    NUMERIC_KINDS,
    ListType,
    ScalarKind,
    ScalarType,
)

WIDE = spark.DecimalType(20, 0)
"""Holds every integer of 64 bits, with and without a sign."""


def arithmetic(
    operator: str, left: SparkColumn, right: SparkColumn, kind: ex.ExpressionType
) -> SparkColumn:
    """`+ - * / %` on numbers of type `kind`; `+` joins strings."""
    if not isinstance(kind, ScalarType) or kind.kind not in NUMERIC_KINDS:
        return F.concat(left, right)
    target = spark_type(kind)
    value = _operate(operator, left.cast(target), right.cast(target), kind.kind)
    return fitted(value, kind.kind) if kind.kind is ScalarKind.U64 else value.cast(target)


def negative(operand: SparkColumn, kind: ex.ExpressionType) -> SparkColumn:
    return arithmetic("-", F.lit(0), operand, kind)


def fitted(value: SparkColumn, kind: ScalarKind) -> SparkColumn:
    """The value as this integer type; an error where it does not fit."""
    low, high = (F.lit(str(bound)).cast(WIDE) for bound in INTEGER_BOUNDS[kind])
    target = spark_type(ScalarType(kind))
    refusal = F.raise_error(F.concat(value.cast("string"), F.lit(f" does not fit {kind.value}")))
    fits = value.isNull() | value.between(low, high)
    return F.when(fits, value.cast(target)).otherwise(refusal.cast(target))


def comparable(
    left: SparkColumn,
    left_kind: ex.ExpressionType,
    right: SparkColumn,
    right_kind: ex.ExpressionType,
) -> tuple[SparkColumn, SparkColumn]:
    """Both as one type; what is no number, or of one type already, stays."""
    common = _common(left_kind, right_kind)
    if common is None:
        return left, right
    return _cast(left, left_kind, common), _cast(right, right_kind, common)


def _cast(value: SparkColumn, kind: ex.ExpressionType, common: Any) -> SparkColumn:
    if isinstance(kind, ListType):
        return value.cast(spark.ArrayType(common))
    return value.cast(common)


def _common(left: ex.ExpressionType, right: ex.ExpressionType) -> Any:
    kinds = {_number(left), _number(right)}
    if len(kinds) == 1 or None in kinds:
        return None
    if kinds & FLOAT_KINDS:
        return spark.DoubleType()
    return WIDE if ScalarKind.U64 in kinds else spark.LongType()


def _number(kind: ex.ExpressionType) -> ScalarKind | None:
    """The number type of a value, or of the items of a list."""
    match kind:
        case ScalarType(found) | ListType(found) if found in NUMERIC_KINDS:
            return found
        case _:
            return None


def _operate(operator: str, left: SparkColumn, right: SparkColumn, kind: ScalarKind) -> SparkColumn:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "%":
            return left % right
        case "/" if kind in FLOAT_KINDS:
            return left / right
        case "/" if kind is ScalarKind.U64:
            # Exact by construction: a quotient of decimals would be rounded.
            return (left - left % right) / right
        case _:
            return F.call_function("div", left, right)

"""Filters of Spark as conditions that Lance evaluates.

Spark evaluates every filter again. So a filter that Lance would evaluate differently, or not at
all, is left out here, and a condition must be true for every row that its filter keeps.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from pyspark.sql import datasource as spark

from omnigraph.catalog.model import EntityType
from omnigraph.spark.source.filter_text import filterable_columns
from omnigraph.values.conditions import LONGEST_LIST, Comparison, Condition, is_exact
from omnigraph.values.scalars import ValueType

_COMPARISONS: dict[type[spark.Filter], Comparison] = {
    spark.EqualTo: "=",
    spark.EqualNullSafe: "=",
    spark.LessThan: "<",
    spark.LessThanOrEqual: "<=",
    spark.GreaterThan: ">",
    spark.GreaterThanOrEqual: ">=",
}


def condition_of(found: spark.Filter, entity: EntityType) -> Condition | None:
    """The condition, or None if only Spark can evaluate this filter."""
    negated = isinstance(found, spark.Not)
    inner: Any = found.child if isinstance(found, spark.Not) else found
    column = _column(inner)
    kind = filterable_columns(entity).get(column) if column is not None else None
    if column is None or kind is None:
        return None
    match inner:
        case spark.IsNull():
            return Condition(column, "is not null" if negated else "is null")
        case spark.IsNotNull():
            return Condition(column, "is null" if negated else "is not null")
        case spark.EqualNullSafe(value=None):
            return Condition(column, "is not null" if negated else "is null")
        case spark.In(value=values) if not negated and len(values) <= LONGEST_LIST:
            plain = tuple(_plain(v) for v in values if v is not None)
            exact = all(is_exact(v, kind) for v in plain)
            return Condition(column, "in", plain) if exact else None
        case spark.EqualTo(value=value) if negated:
            return _compared(column, "!=", value, kind)
        case _ if not negated and type(inner) in _COMPARISONS:
            return _compared(column, _COMPARISONS[type(inner)], inner.value, kind)
        case _:
            return None


def _compared(column: str, operator: Comparison, value: Any, kind: ValueType) -> Condition | None:
    plain = _plain(value)
    return Condition(column, operator, (plain,)) if is_exact(plain, kind) else None


def _column(found: Any) -> str | None:
    path: tuple[str, ...] = getattr(found, "attribute", ())
    return path[0] if len(path) == 1 else None


def _plain(value: Any) -> Any:
    """A whole decimal as an integer, because a U64 is a decimal in Spark."""
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    return value

"""Groups and aggregates: integers are exact, NULLs are skipped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as F

from omnigraph.ir import expressions as ex
from omnigraph.ir.reads import Aggregate, OrderBy
from omnigraph.spark.query.answers import output_type
from omnigraph.spark.query.expressions import Expressions
from omnigraph.spark.query.rows import Output, SparkColumn, SparkRows
from omnigraph.spark.query.spark_values import WIDE, as_spark_type, fitted
from omnigraph.values.scalars import INTEGER_KINDS, ScalarKind, ScalarType

_TIE = "tie"
_WEIGHT = "weight"


@dataclass(frozen=True, slots=True)
class _AggregateInput:
    """The columns that one aggregate function reads."""

    value: SparkColumn | None
    """None for `count()`, which counts rows."""
    kind: ex.ExpressionType
    weight: SparkColumn | None
    ties: Sequence[str]
    distinct: bool

    @property
    def is_integer(self) -> bool:
        return isinstance(self.kind, ScalarType) and self.kind.kind in INTEGER_KINDS


def aggregate(op: Aggregate, rows: SparkRows, expressions: Expressions) -> SparkRows:
    """Keys, then aggregates.

    Keys and operands are computed below the grouping, because Spark allows any expression there.
    """
    keys = {f"k{n}": c for n, c in enumerate(op.keys)}
    calls = {f"a{n}": c for n, c in enumerate(op.aggregates)}
    ties = op.input.ties if isinstance(op.input, OrderBy) else ()
    below = [expressions.guarded(c.value, rows).alias(name) for name, c in keys.items()]
    for name, column in calls.items():
        operand = _call(column.value).operand
        if operand is not None:
            below.append(_operand(operand, rows, expressions).alias(f"{name}_in"))
    below += [expressions.column(t, rows).alias(f"{_TIE}{n}") for n, t in enumerate(ties)]
    below += [F.col(rows.weight).alias(_WEIGHT)] if rows.weight is not None else []
    tie_names = [f"{_TIE}{n}" for n in range(len(ties))]
    made = [
        _aggregated(name, _call(column.value), rows.weight is not None, tie_names).alias(name)
        for name, column in calls.items()
    ]
    frame = rows.frame.select(*below) if below else rows.frame
    grouped = frame.groupBy(*keys) if keys else frame
    result = grouped.agg(*made) if made else frame.select(*keys).distinct()
    outputs = {
        column.name: Output(name, output_type(column.value, rows, expressions.catalog))
        for name, column in (*keys.items(), *calls.items())
    }
    return SparkRows(result, outputs=outputs, at_most=None if keys else 1)


def _call(value: ex.Expression) -> ex.AggregateCall:
    assert isinstance(value, ex.AggregateCall)
    return value


def _operand(operand: ex.Expression, rows: SparkRows, expressions: Expressions) -> SparkColumn:
    """The operand as a column. For a whole entity that is its id and type."""
    if isinstance(operand, ex.Whole) and operand.variable.id in rows.bindings:
        bound = rows.bindings[operand.variable.id]
        identity = F.struct(*(F.col(name) for name in bound.identity))
        return F.when(F.col(bound.id).isNotNull(), identity)
    return expressions.guarded(operand, rows)


def _aggregated(
    name: str, call: ex.AggregateCall, weighted: bool, ties: Sequence[str]
) -> SparkColumn:
    operand = call.operand
    values = _AggregateInput(
        value=None if operand is None else F.col(f"{name}_in"),
        kind=call.type if operand is None else operand.type,
        # The weight does not matter for distinct values.
        weight=F.col(_WEIGHT) if weighted and not call.distinct else None,
        ties=ties,
        distinct=call.distinct,
    )
    return _FUNCTIONS[call.function](values).cast(as_spark_type(call.type))


def _count(values: _AggregateInput) -> SparkColumn:
    if values.value is None:
        counted = F.lit(1) if values.weight is None else values.weight
        total = F.count(counted) if values.weight is None else F.sum(counted)
    elif values.distinct:
        total = F.count_distinct(values.value)
    elif values.weight is None:
        total = F.count(values.value)
    else:
        total = F.sum(F.when(values.value.isNotNull(), values.weight))
    return F.coalesce(total, F.lit(0).cast("bigint"))


def _total(values: _AggregateInput) -> SparkColumn:
    total = _sum(values)
    return fitted(total, ScalarKind.I64) if values.is_integer else total


def _sum(values: _AggregateInput) -> SparkColumn:
    """Exact for integers: only the total must fit the result type, not the partial sums."""
    number = values.value.cast(WIDE if values.is_integer else "double")  # type: ignore[union-attr]
    if values.distinct:
        return F.sum_distinct(number)
    return F.sum(number if values.weight is None else number * values.weight)


def _mean(values: _AggregateInput) -> SparkColumn:
    many = _count(values)
    return F.when(many > 0, _sum(values).cast("double") / many)


def _collect(values: _AggregateInput) -> SparkColumn:
    """The values in the order of the rows below. The ties make that order total."""
    assert values.value is not None
    ordered = F.struct(*(F.col(tie) for tie in values.ties), values.value.alias("value"))
    gathered = F.sort_array(F.collect_list(F.when(values.value.isNotNull(), ordered)))
    found = F.transform(gathered, lambda each: each["value"])
    return F.array_distinct(found) if values.distinct else found


_FUNCTIONS: dict[str, Callable[[_AggregateInput], Any]] = {
    "count": _count,
    "sum": _total,
    "avg": _mean,
    "min": lambda values: F.min(values.value),
    "max": lambda values: F.max(values.value),
    "collect": _collect,
}

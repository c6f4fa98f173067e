"""Groups and aggregates: integers are exact, NULLs are skipped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as F

from omnigraph.catalog.model import ID, Catalog
from omnigraph.execute.evaluation.arrow_functions import as_arrow_type
from omnigraph.ir import expressions as ex
from omnigraph.ir.reads import Aggregate, OrderBy
from omnigraph.spark.query.answers import output_type
from omnigraph.spark.query.expressions import Expressions
from omnigraph.spark.query.rows import Frame, Output, SparkColumn, SparkRows
from omnigraph.spark.query.scan_groups import GroupValue, ScanGroups
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


# Aggregates of groups that the tasks of a scan have made already.

# Arrow and Spark agree about which of these values are equal and which is less.
_KEY_KINDS = INTEGER_KINDS | {ScalarKind.STRING, ScalarKind.BOOL, ScalarKind.DATE}
# Arrow does not notice an overflow. The sum of the rows of a task fits 64 bits with these.
_SUMMED_KINDS = frozenset({ScalarKind.I32, ScalarKind.U32})
_COUNT_ROWS = GroupValue("count_all", None)


def groups_of(op: Aggregate, node: ex.Variable) -> ScanGroups | None:
    """The groups that tasks can make of the nodes of one type; None if Spark must make them."""
    keys = [_stored_name(column.value, node, _KEY_KINDS) for column in op.keys]
    values = [_group_values(_call(column.value), node) for column in op.aggregates]
    names = [name for name in keys if name is not None]
    found = [each for parts in values if parts is not None for each in parts]
    reads_columns = names or any(each.column is not None for each in found)
    if len(names) < len(keys) or None in values or not values or not reads_columns:
        return None
    return ScanGroups(tuple(names), tuple(dict.fromkeys(found)))


def _group_values(call: ex.AggregateCall, node: ex.Variable) -> list[GroupValue] | None:
    match call:
        case ex.AggregateCall("count", None):
            return [_COUNT_ROWS]
        case ex.AggregateCall("count", ex.Whole(variable)) if variable == node:
            # Nodes of a scan are never NULL, and each comes once.
            return [_COUNT_ROWS]
        case ex.AggregateCall("count", operand, False):
            name = _stored_name(operand, node, _KEY_KINDS)
            return None if name is None else [GroupValue("count", name)]
        case ex.AggregateCall("sum" | "avg", operand, False):
            name = _stored_name(operand, node, _SUMMED_KINDS)
            return None if name is None else [GroupValue("sum", name), GroupValue("count", name)]
        case ex.AggregateCall("min" | "max" as function, operand, _):
            name = _stored_name(operand, node, INTEGER_KINDS)
            return None if name is None else [GroupValue(function, name)]
        case _:
            return None


def _stored_name(value: Any, node: ex.Variable, kinds: frozenset[ScalarKind]) -> str | None:
    """The stored column that an expression is, if its type is one of these."""
    match value:
        case ex.PropertyOf(variable, name, ScalarType(kind)) if variable == node and kind in kinds:
            return None if name == ID else name
        case _:
            return None


def combine(op: Aggregate, groups: ScanGroups, frame: Frame, catalog: Catalog) -> SparkRows:
    """One row for each group of the tasks, with the aggregates that the query names."""
    column = {value: F.col(f"p{number}") for number, value in enumerate(groups.values)}
    keys = {f"k{n}": c for n, c in enumerate(op.keys)}
    calls = {f"a{n}": c for n, c in enumerate(op.aggregates)}
    made = [
        _combined(_call(c.value), column).cast(as_spark_type(c.value.type)).alias(name)
        for name, c in calls.items()
    ]
    grouped = frame.groupBy(*(F.col(f"g{n}").alias(key) for n, key in enumerate(keys)))
    outputs = {
        c.name: Output(name, as_arrow_type(c.value.type))
        for name, c in (*keys.items(), *calls.items())
    }
    return SparkRows(grouped.agg(*made), outputs=outputs, at_most=None if keys else 1)


def _combined(call: ex.AggregateCall, column: dict[GroupValue, SparkColumn]) -> SparkColumn:
    operand = call.operand
    name = operand.property if isinstance(operand, ex.PropertyOf) else None
    if call.function in ("min", "max"):
        values = column[GroupValue(call.function, name)]
        return F.min(values) if call.function == "min" else F.max(values)
    counted = column[_COUNT_ROWS if name is None else GroupValue("count", name)]
    many = F.coalesce(F.sum(counted), F.lit(0).cast("bigint"))
    if call.function == "count":
        return many
    total = F.sum(column[GroupValue("sum", name)].cast(WIDE))
    if call.function == "sum":
        return fitted(total, ScalarKind.I64)
    return F.when(many > 0, total.cast("double") / many)

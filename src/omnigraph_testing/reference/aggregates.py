"""Aggregate functions over the rows of one group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from omnigraph.ir import expressions as ex
from omnigraph_testing.reference.expressions import evaluate
from omnigraph_testing.reference.numbers import fitted
from omnigraph_testing.reference.ordering import comparable, identity
from omnigraph_testing.reference.rows import Row, World


def aggregate(call: ex.AggregateCall, rows: Sequence[Row], world: World) -> Any:
    """NULLs are skipped; of nothing, a count is 0, a collection empty, all else NULL.

    `rows` are in tie order, which is the order `collect` keeps.
    """
    if call.operand is None:
        return len(rows)
    values = [evaluate(call.operand, row, world) for row in rows]
    values = [value for value in values if value is not None]
    if call.distinct:
        values = _first_of_each(values)
    match call.function:
        case "count":
            return len(values)
        case "collect":
            return values
        case _ if not values:
            return None
        case "sum":
            return _total(values, call.type)
        case "avg":
            return _mean(values)
        case "min":
            return min(values, key=comparable)
        case "max":
            return max(values, key=comparable)
        case _:
            raise ValueError(call.function)


def _first_of_each(values: list[Any]) -> list[Any]:
    seen: dict[Any, Any] = {}
    for value in values:
        seen.setdefault(identity(value), value)
    return list(seen.values())


def _total(values: list[Any], kind: ex.ExpressionType) -> Any:
    # The whole sum decides, not how far it strayed on the way: order must not matter.
    return fitted(_sum(values), kind, "sum")


def _mean(values: list[Any]) -> Any:
    return fitted(_sum(values) / len(values), ex.F64, "avg")


def _sum(values: list[Any]) -> Any:
    if all(isinstance(value, int) for value in values):
        return sum(values)
    try:
        return math.fsum(values)
    except OverflowError:
        return math.inf

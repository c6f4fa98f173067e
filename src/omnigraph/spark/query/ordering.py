"""Total order, distinct rows, pages."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.errors import InvalidArgument
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.ir import expressions as ex
from omnigraph.ir.reads import Limit, OrderBy, SortKey
from omnigraph.spark.query.expressions import Expressions
from omnigraph.spark.query.rows import SparkColumn, SparkRows

_LARGEST = 2**31 - 1


def order(op: OrderBy, rows: SparkRows, expressions: Expressions) -> SparkRows:
    keys = [_key(key, rows, expressions) for key in (*op.keys, *map(SortKey, op.ties))]
    return replace(rows, frame=rows.frame.orderBy(*keys))


def page(op: Limit, rows: SparkRows, scalars: Evaluator) -> SparkRows:
    skip = _amount(op.offset, "offset", scalars) or 0
    first = _amount(op.count, "limit", scalars)
    if skip > _LARGEST:
        raise InvalidArgument(f"offset is {skip:,}; engine 'spark' goes up to {_LARGEST:,}")
    frame = rows.frame.offset(skip) if skip else rows.frame
    # More than that is no limit: no answer is so long.
    return rows.on(frame if first is None or first > _LARGEST else frame.limit(first))


def _key(key: SortKey, rows: SparkRows, expressions: Expressions) -> SparkColumn:
    value = expressions.column(key.value, rows)
    if key.descending:
        return value.desc_nulls_last()
    return value.asc_nulls_last() if key.nulls_last else value.asc_nulls_first()


def _amount(expression: ex.Expression | None, what: str, scalars: Evaluator) -> int | None:
    value: int | None = None if expression is None else scalars.scalar(expression)
    if value is not None and value < 0:
        raise InvalidArgument(f"{what} must not be negative, got {value}")
    return value

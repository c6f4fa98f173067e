"""Expressions over the columns of a table of rows, without a graph behind them.

The predicate and the assignments of a mutation are such expressions, and the backfills of a schema
change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.views.frame import Frame
from omnigraph.ir import expressions as ex
from omnigraph.ir.walk import rewrite, walk


@dataclass(frozen=True, slots=True)
class RowExpression:
    """An expression over the columns of a table of rows."""

    expression: ex.Expression
    columns: tuple[str, ...]

    def values(self, rows: pa.Table, evaluator: Evaluator) -> pa.Array:
        return evaluator.array(self.expression, _frame_of(rows, self.columns))

    def true_rows(self, rows: pa.Table, evaluator: Evaluator) -> pa.Table:
        if not rows.num_rows:
            return rows
        return rows.filter(pa.array(evaluator.mask(self.expression, _frame_of(rows, self.columns))))


def over_rows(expression: ex.Expression) -> RowExpression:
    """Replaces `RowProperty` by a column of a frame, because the evaluator reads frames."""
    columns = {n.property for n in walk(expression) if isinstance(n, ex.RowProperty)}
    return RowExpression(rewrite(expression, _as_column), tuple(sorted(columns)))


def _as_column(node: Any) -> Any:
    if isinstance(node, ex.RowProperty):
        return ex.ColumnRef(node.property, node.type, node.nullable)
    return node


def _frame_of(rows: pa.Table, columns: Iterable[str]) -> Frame:
    return Frame(rows.num_rows, columns={name: one_chunk(rows.column(name)) for name in columns})


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        return (
            pa.concat_arrays(combined.chunks) if combined.num_chunks else pa.array([], column.type)
        )
    return combined

"""Expressions over the columns of a table of rows, without a graph behind them.

The predicate and the assignments of a mutation are such expressions, and the backfills of a schema
change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import InvalidArgument
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.topology.scoped_states import RowRule
from omnigraph.execute.views.frame import Frame
from omnigraph.ir import expressions as ex
from omnigraph.ir.data_scope import DataScope
from omnigraph.ir.walk import rewrite, walk
from omnigraph.values.bounded_cache import BoundedCache

# A rule depends on the row alone, so it has neither parameters nor a moment.
_ROW_ALONE = Evaluator({}, 0)


@dataclass(frozen=True, slots=True)
class RowExpression:
    """An expression over the columns of a table of rows."""

    expression: ex.Expression
    columns: tuple[str, ...]

    def values(self, rows: pa.Table, evaluator: Evaluator) -> pa.Array:
        return evaluator.array(self.expression, _frame_of(rows, self.columns))

    def mask(self, rows: pa.Table, evaluator: Evaluator) -> npt.NDArray[np.bool_]:
        return evaluator.mask(self.expression, _frame_of(rows, self.columns))

    def true_rows(self, rows: pa.Table, evaluator: Evaluator) -> pa.Table:
        if rows.num_rows == 0:
            return rows
        mask = self.mask(rows, evaluator)
        return rows if mask.all() else rows.filter(pa.array(mask))


# By identity. An entry holds its expression, so that no other object gets the identity meanwhile.
_rewritten: BoundedCache[int, tuple[ex.Expression, RowExpression]] = BoundedCache(1024)


def over_rows(expression: ex.Expression) -> RowExpression:
    """Replaces `RowProperty` by a column of a frame, because the evaluator reads frames.

    Compiled queries are kept and run again, so the result is kept for the same object.
    """
    known = _rewritten.get(id(expression))
    if known is not None and known[0] is expression:
        return known[1]
    columns = {n.property for n in walk(expression) if isinstance(n, ex.RowProperty)}
    made = RowExpression(rewrite(expression, _as_column), tuple(sorted(columns)))
    _rewritten.put(id(expression), (expression, made))
    return made


def row_rules(scope: DataScope | None) -> dict[str, RowRule]:
    """The rules about rows of a scope, by type, ready to be evaluated."""
    types = {} if scope is None else scope.types
    return {name: row_rule(t.rows) for name, t in types.items() if t.rows is not None}


def row_rule(predicate: ex.Expression) -> RowRule:
    rule = over_rows(predicate)
    return RowRule(predicate, rule.columns, lambda rows: rule_mask(rule, rows))


def rule_mask(
    rule: RowExpression, rows: pa.Table, evaluator: Evaluator = _ROW_ALONE
) -> npt.NDArray[np.bool_]:
    """Which rows a rule keeps. An error does not tell values, because the rows may be hidden."""
    try:
        return rule.mask(rows, evaluator)
    except (InvalidArgument, pa.ArrowInvalid):
        raise InvalidArgument(
            "a rule about rows in the policy has no value for some row, so nothing is shown; "
            "the administrator of the policy must change the rule"
        ) from None


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

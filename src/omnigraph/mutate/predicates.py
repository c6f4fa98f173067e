"""Row predicates: evaluated over Arrow tables, and what storage can answer of them beforehand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.catalog.model import ID, EntityType, NodeType
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.views.frame import Frame
from omnigraph.ir import expressions as ex
from omnigraph.ir.walk import rewrite, walk
from omnigraph.lance_store.reads.row_filter import compares_exactly
from omnigraph.lance_store.reads.row_lookup import literal
from omnigraph.values.entity_ids import entity_id
from omnigraph.values.scalars import EnumType, ScalarType

_MOST_IN_FILTER = 2000

_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class RowExpression:
    """An expression over the columns of a table of rows."""

    expression: ex.Expression
    columns: tuple[str, ...]


def over_rows(expression: ex.Expression) -> RowExpression:
    """`RowProperty` becomes a column of the frame, which is how the evaluator reads tables."""
    columns = {n.property for n in walk(expression) if isinstance(n, ex.RowProperty)}
    return RowExpression(rewrite(expression, _as_column), tuple(sorted(columns)))


def _as_column(node: Any) -> Any:
    if isinstance(node, ex.RowProperty):
        return ex.ColumnRef(node.property, node.type, node.nullable)
    return node


def frame_of(rows: pa.Table, columns: Iterable[str]) -> Frame:
    return Frame(rows.num_rows, columns={name: one_chunk(rows.column(name)) for name in columns})


def mask(evaluator: Evaluator, predicate: RowExpression, rows: pa.Table) -> npt.NDArray[np.bool_]:
    return evaluator.mask(predicate.expression, frame_of(rows, predicate.columns))


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        return (
            pa.concat_arrays(combined.chunks) if combined.num_chunks else pa.array([], column.type)
        )
    return combined


def pinned_ids(
    predicate: ex.Expression, entity: EntityType, evaluator: Evaluator
) -> list[str] | None:
    """The only ids for which the predicate can be true, when it names them; else None."""
    named: dict[str, list[Any]] = {}
    for column, operator, values in _conditions(predicate, evaluator):
        if operator == "in":
            named.setdefault(column, values)
    if ID in named:
        return [value for value in named[ID] if isinstance(value, str)]
    key = entity.key if isinstance(entity, NodeType) else ()
    if not key or any(name not in named for name in key):
        return None
    if len(key) == 1:
        return [entity_id([value]) for value in named[key[0]]]
    if all(len(named[name]) == 1 for name in key):
        return [entity_id([named[name][0] for name in key])]
    return [] if any(not named[name] for name in key) else None


def lance_filter(predicate: ex.Expression, evaluator: Evaluator) -> str | None:
    """A filter that every row passes for which the predicate is true; None lets all pass."""
    parts = []
    for column, operator, values in _conditions(predicate, evaluator):
        if operator == "in":
            if len(values) <= _MOST_IN_FILTER:
                listed = ",".join(literal(v) for v in values)
                parts.append(f"`{column}` IN ({listed})" if values else "false")
        elif operator in ("is null", "is not null"):
            parts.append(f"`{column}` {operator}")
        else:
            parts.append(f"`{column}` {operator} {literal(values[0])}" if values else "false")
    return " AND ".join(parts) or None


def _conditions(
    predicate: ex.Expression, evaluator: Evaluator
) -> Iterator[tuple[str, str, list[Any]]]:
    """(column, operator, values) of the conjuncts that storage understands exactly."""
    operands = predicate.operands if isinstance(predicate, ex.And) else (predicate,)
    for conjunct in operands:
        match conjunct:
            case ex.And():
                yield from _conditions(conjunct, evaluator)
            case ex.Compare(
                ("=" | "<" | "<=" | ">" | ">=") as operator,
                ex.RowProperty(column, kind),
                (ex.Constant() | ex.ParameterRef()) as value,
            ):
                yield from _compared(column, kind, operator, evaluator.plain(value))
            case ex.Compare(
                ("=" | "<" | "<=" | ">" | ">=") as operator,
                (ex.Constant() | ex.ParameterRef()) as value,
                ex.RowProperty(column, kind),
            ):
                yield from _compared(column, kind, _FLIPPED[operator], evaluator.plain(value))
            case ex.InList(
                ex.RowProperty(column, kind), (ex.Constant() | ex.ParameterRef()) as collection
            ):
                values = list(evaluator.plain(collection) or ())
                if all(compares_exactly(value, kind) for value in values):
                    yield column, "in", values
            case ex.IsNull(ex.RowProperty(column, kind), negated) if isinstance(
                kind, EnumType | ScalarType
            ):
                yield column, "is not null" if negated else "is null", []
            case _:
                continue


def _compared(
    column: str, kind: ex.ExpressionType, operator: str, value: Any
) -> Iterator[tuple[str, str, list[Any]]]:
    if value is None:
        yield column, "in", []  # a comparison with NULL is never true
    elif compares_exactly(value, kind):
        yield column, "in" if operator == "=" else operator, [value]

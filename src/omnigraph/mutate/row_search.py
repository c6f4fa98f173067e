"""The rows a statement speaks of: stored ones that no statement has touched, and pending ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
from omnigraph.lance_store.reads.row_lookup import ROW_ADDRESS, ROW_ID, find_rows, literal
from omnigraph.lance_store.reads.scan import read_batches
from omnigraph.lance_store.store import Dataset
from omnigraph.mutate.pending import PendingTable
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


@dataclass(frozen=True, slots=True)
class MatchingRows:
    """`stored` says where its rows are, too (`_rowid`, `_rowaddr`); None when there is none."""

    stored: pa.Table | None
    pending: pa.Table | None


def matching_rows(
    dataset: Dataset,
    pending: PendingTable,
    predicate: ex.Expression,
    evaluator: Evaluator,
    columns: Sequence[str],
) -> MatchingRows:
    """`columns` (`id` among them) of every row for which the predicate is true right now."""
    judged = over_rows(predicate)
    ids = pinned_ids(predicate, pending.entity, evaluator)
    if ids is None:
        stored = _scanned(dataset, pending, predicate, judged, evaluator, columns)
    else:
        needed = list(dict.fromkeys([ID, *columns, *judged.columns]))
        found = find_rows(dataset, pa.array(list(dict.fromkeys(ids)), pa.string()), needed)
        stored = _judged(pending.untouched(found), judged, evaluator)
    rows = pending.rows
    hit = None if rows is None else _judged(rows, judged, evaluator)
    return MatchingRows(_some(stored, [*columns, ROW_ID, ROW_ADDRESS]), _some(hit, columns))


def _judged(rows: pa.Table, predicate: RowExpression, evaluator: Evaluator) -> pa.Table:
    return rows.filter(pa.array(mask(evaluator, predicate, rows))) if rows.num_rows else rows


def _some(rows: pa.Table | None, columns: Sequence[str]) -> pa.Table | None:
    return None if rows is None or rows.num_rows == 0 else rows.select(columns)


def _scanned(
    dataset: Dataset,
    pending: PendingTable,
    predicate: ex.Expression,
    judged: RowExpression,
    evaluator: Evaluator,
    columns: Sequence[str],
) -> pa.Table | None:
    """Reads what the predicate needs, then of the rows that matched what else is wanted."""
    narrow = list(dict.fromkeys([ID, *judged.columns]))
    parts = []
    row_filter = lance_filter(predicate, evaluator)
    for batch in read_batches(dataset, narrow, row_filter, located=True):
        untouched = pending.untouched(pa.Table.from_batches([batch]))
        hit = _judged(untouched, judged, evaluator)
        if hit.num_rows:
            parts.append(hit)
    if not parts:
        return None
    found = pa.concat_tables(parts)
    if set(columns) <= set(narrow):
        return found
    return find_rows(dataset, one_chunk(found.column(ID)), columns)

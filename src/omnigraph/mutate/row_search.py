"""The rows a statement speaks of: stored ones that no statement has touched, and pending ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.catalog.model import ID
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.ir import expressions as ex
from omnigraph.lance_store.reads.row_lookup import ROW_ADDRESS, ROW_ID, find_rows
from omnigraph.lance_store.reads.scan import read_batches
from omnigraph.lance_store.store import Dataset
from omnigraph.mutate.pending import PendingTable
from omnigraph.mutate.predicates import (
    RowExpression,
    lance_filter,
    mask,
    one_chunk,
    over_rows,
    pinned_ids,
)


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

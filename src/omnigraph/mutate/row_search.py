"""The rows a statement speaks of: stored ones that no statement has touched, and pending ones."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from omnigraph.catalog.arrow_schema import ID
from omnigraph.execute.local.expressions import Evaluator
from omnigraph.ir import expressions as ex
from omnigraph.lance_store.row_lookup import find_rows
from omnigraph.lance_store.scan import read_batches
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


def matching_rows(
    dataset: Dataset,
    pending: PendingTable,
    predicate: ex.Expression,
    evaluator: Evaluator,
    columns: Sequence[str],
) -> pa.Table:
    """`columns` (`id` among them) of every row for which the predicate is true right now."""
    judged = over_rows(predicate)
    stored = _stored(dataset, pending, predicate, judged, evaluator, columns)
    rows = pending.rows
    if rows is None or rows.num_rows == 0:
        return stored
    hit = rows.filter(pa.array(mask(evaluator, judged, rows)))
    return pa.concat_tables([stored, hit.select(columns).cast(stored.schema)])


def _stored(
    dataset: Dataset,
    pending: PendingTable,
    predicate: ex.Expression,
    judged: RowExpression,
    evaluator: Evaluator,
    columns: Sequence[str],
) -> pa.Table:
    schema = pa.schema([pending.schema.field(name) for name in columns])
    ids = pinned_ids(predicate, pending.entity, evaluator)
    if ids is not None:
        needed = list(dict.fromkeys([ID, *columns, *judged.columns]))
        found = find_rows(dataset, pa.array(list(dict.fromkeys(ids)), pa.string()), needed)
        found = pending.untouched(found)
        found = found.filter(pa.array(mask(evaluator, judged, found)))
        return found.select(columns).cast(schema)
    narrow = list(dict.fromkeys([ID, *judged.columns]))
    parts = []
    for batch in read_batches(dataset, narrow, lance_filter(predicate, evaluator)):
        part = pending.untouched(pa.Table.from_batches([batch]))
        hit = part.filter(pa.array(mask(evaluator, judged, part)))
        if hit.num_rows:
            parts.append(hit.select([n for n in columns if n in narrow]))
    if not parts:
        return schema.empty_table()
    found = pa.concat_tables(parts)
    if set(columns) - set(narrow):
        # Wide columns (texts, vectors, blobs) are read for the rows that matched, no others.
        found = find_rows(dataset, one_chunk(found.column(ID)), columns)
    return found.select(columns).cast(schema)

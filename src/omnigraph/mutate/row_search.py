"""The rows for which the predicate of an update or delete is true.

Stored rows that no earlier statement has touched are looked up by id where the predicate names ids
or keys, and scanned otherwise. Pending rows are in memory and judged there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph.catalog.model import ID, EntityType
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.evaluation.row_expressions import RowExpression, one_chunk, over_rows
from omnigraph.ir import expressions as ex
from omnigraph.ir.storage_conditions import conditions_of
from omnigraph.lance_store.reads.row_lookup import ROW_ADDRESS, ROW_ID, find_rows
from omnigraph.lance_store.reads.scan import read_batches
from omnigraph.lance_store.store import Dataset
from omnigraph.mutate.pending import PendingTable
from omnigraph.scoping.visible_rows import VisibleRows
from omnigraph.values.conditions import Condition
from omnigraph.values.entity_ids import entity_id


@dataclass(frozen=True, slots=True)
class MatchingRows:
    """Either table is None when it would have no rows.

    `stored` also has the columns `_rowid` and `_rowaddr`.
    """

    stored: pa.Table | None
    pending: pa.Table | None


def matching_rows(
    dataset: Dataset,
    pending: PendingTable,
    predicate: ex.Expression,
    evaluator: Evaluator,
    columns: Sequence[str],
    visible: VisibleRows,
    when_named: Callable[[pa.Array], None] = lambda _: None,
) -> MatchingRows:
    """`columns`, `id` among them, of the visible rows for which the predicate is true now.

    The predicate is evaluated on visible rows only, because its errors would tell about others. If
    it names ids, `when_named` gets them before their rows are looked up.
    """
    key = pending.entity.table_key
    if not visible.has_type(key):
        return MatchingRows(None, None)
    judged = over_rows(predicate)
    needed_to_see = visible.rule(key).columns
    ids = _named_ids(conditions_of([predicate], evaluator.plain, None), pending.entity)
    if ids is None:
        stored = _scanned(dataset, pending, predicate, judged, evaluator, columns, visible)
    else:
        needed = list(dict.fromkeys([ID, *columns, *judged.columns, *needed_to_see]))
        named = pa.array(list(dict.fromkeys(ids)), pa.string())
        when_named(named)
        found = find_rows(dataset, named, needed)
        shown = visible.keep(key, pending.untouched(found))
        stored = judged.true_rows(shown, evaluator)
    rows = pending.rows
    hit = None if rows is None else judged.true_rows(rows, evaluator)
    return MatchingRows(_some(stored, [*columns, ROW_ID, ROW_ADDRESS]), _some(hit, columns))


def _named_ids(conditions: Iterable[Condition], entity: EntityType) -> list[str] | None:
    """The only ids that can meet the conditions; None when they name neither ids nor whole keys."""
    named: dict[str, tuple[Any, ...]] = {}
    for condition in conditions:
        if condition.operator in ("=", "in"):
            named.setdefault(condition.column, condition.values)
    if ID in named:
        return list(named[ID])
    key = entity.key
    if not key or any(name not in named for name in key):
        return None
    if len(key) == 1:
        return [entity_id([value]) for value in named[key[0]]]
    if all(len(named[name]) == 1 for name in key):
        return [entity_id([named[name][0] for name in key])]
    return [] if any(not named[name] for name in key) else None


def _scanned(
    dataset: Dataset,
    pending: PendingTable,
    predicate: ex.Expression,
    judged: RowExpression,
    evaluator: Evaluator,
    columns: Sequence[str],
    visible: VisibleRows,
) -> pa.Table | None:
    """Reads the columns of the predicate first, and other columns only of rows that matched."""
    key = pending.entity.table_key
    narrow = list(dict.fromkeys([ID, *judged.columns, *visible.rule(key).columns]))
    conditions = conditions_of([predicate], evaluator.plain)
    parts = []
    for batch in read_batches(dataset, narrow, conditions, located=True):
        untouched = pending.untouched(pa.Table.from_batches([batch]))
        hit = judged.true_rows(visible.keep(key, untouched), evaluator)
        if hit.num_rows:
            parts.append(hit)
    if not parts:
        return None
    found = pa.concat_tables(parts)
    if set(columns) <= set(narrow):
        return found
    return find_rows(dataset, one_chunk(found.column(ID)), columns)


def _some(rows: pa.Table | None, columns: Sequence[str]) -> pa.Table | None:
    return None if rows is None or rows.num_rows == 0 else rows.select(columns)

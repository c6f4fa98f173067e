"""Rows that replace stored entities keep the stored values of generated defaults.

`now()` and `uuid()` are made before a write knows which entities exist. The rows of existing ones
then get the stored values back, so that writing the same rows again changes nothing. This happens
before rules are checked, because the rules must hold for the values that are written.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ID
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.store import Dataset

Marks = Mapping[str, pa.Array | pa.ChunkedArray]
"""Property with a generated default -> for every row, whether the row leaves it out."""


def keep_stored(
    dataset: Dataset, rows: pa.Table, ids: pa.Array | pa.ChunkedArray, marks: Marks
) -> tuple[pa.Table, pa.Array | None]:
    """(the rows, a mask of those that keep a value; None if there is none).

    `ids` are the ids under which the rows are written, NULL for a row that is not written.
    """
    asked = None
    for mark in marks.values():
        asked = mark if asked is None else pc.or_(asked, mark)
    wanted = _one(ids.filter(asked)).drop_null() if asked is not None else ()
    if not len(wanted):
        return rows, None
    stored = find_rows(dataset, wanted, [ID, *marks])
    if stored.num_rows == 0:
        return rows, None
    position = _one(pc.index_in(ids, value_set=_one(stored.column(ID))))
    exists = position.is_valid()
    for name, mark in marks.items():
        place = rows.schema.get_field_index(name)
        field = rows.schema.field(place)
        values = _one(stored.column(name).cast(field.type)).take(position)
        kept = pc.if_else(pc.and_(exists, _one(mark)), values, _one(rows.column(place)))
        rows = rows.set_column(place, field, kept)
    return rows, pc.and_(exists, _one(asked))


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

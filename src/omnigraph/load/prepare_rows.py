"""Rows as given -> rows as stored: ids derived or made, everything else as the table wants it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import ID, EntityType, NodeType
from omnigraph.values.entity_ids import new_ulids
from omnigraph.writes.derived import derived_ids

PLACE = "__place"
"""Where a row came from, as one number that grows with file and line."""

_FILE_SHIFT = 40


def place_of(file_number: int, line: int) -> int:
    return (file_number << _FILE_SHIFT) | line


def file_and_line(place: int) -> tuple[int, int]:
    return place >> _FILE_SHIFT, place & ((1 << _FILE_SHIFT) - 1)


def with_ids(entity: EntityType, table: pa.Table) -> pa.Table:
    """Every row gets its id: the one given, else the spelling of its key, else a fresh one.

    A row whose key is incomplete gets an empty one: the rule about the missing member speaks.
    """
    given = table.column(ID)
    if isinstance(entity, NodeType) and entity.key:
        derived = derived_ids([table.column(name) for name in entity.key])
        derived = pc.fill_null(derived, "") if derived.null_count else derived
        ids = derived if given.null_count == len(given) else pc.coalesce(given, derived)
    elif given.null_count:
        ids = _fill(given)
    else:
        return table
    return table.set_column(0, table.schema.field(0), ids)


def as_stored(entity: EntityType, table: pa.Table) -> pa.Table:
    """The same rows under the table's own schema; call it when no rule is broken."""
    return pa.table(table.columns, schema=table_schema(entity))


def _fill(given: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    fresh = new_ulids(given.null_count)
    if given.null_count == len(given):
        return fresh
    missing = given.is_null().to_numpy()
    place = np.cumsum(missing) - 1
    return pc.coalesce(given, fresh.take(pa.array(np.maximum(place, 0))))

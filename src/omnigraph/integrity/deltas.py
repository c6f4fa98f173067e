"""What a write does to one table, as far as graph rules care.

A `TableDelta` needs only the `checked_columns` of its type, so a load of any size can hand in the
narrow columns of what it wrote. `deltas_of` makes them from the effects of a change set.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from omnigraph.catalog.model import ID
from omnigraph.integrity.violations import Places
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.effects import EditRows, Effect, ReplaceRows

NO_IDS = pa.array([], pa.string())


@dataclass(frozen=True)
class TableDelta:
    """Rows that are in the table afterwards, and ids that are not any more.

    `replaces`: nothing but `written` is in the table afterwards, `deleted` is then empty.
    `written` holds at least `checked_columns(entity)`; `places` knows where its rows came from.
    """

    key: TableKey
    written: pa.Table | None = None
    deleted: pa.Array = field(default_factory=lambda: NO_IDS)
    replaces: bool = False
    distinct: bool = False
    """Whoever made it knows that no id occurs twice."""
    places: Places | None = None

    @cached_property
    def written_ids(self) -> pa.Array:
        return NO_IDS if self.written is None else _one(self.written.column(ID))

    @cached_property
    def gone(self) -> pa.Array:
        """Ids whose stored row does not count any more."""
        return pa.concat_arrays([self.written_ids, self.deleted])


Deltas = dict[TableKey, TableDelta]


def deltas_of(effects: Iterable[Effect]) -> Deltas:
    """Deltas of the effects that change rows."""
    found: Deltas = {}
    for effect in effects:
        match effect:
            case EditRows(key, inserts, upserts, deletes):
                parts = [t for t in (inserts, upserts) if t is not None]
                written = pa.concat_tables(parts) if parts else None
                found[key] = TableDelta(key, written, NO_IDS if deletes is None else deletes)
            case ReplaceRows(key, rows):
                found[key] = TableDelta(key, rows, replaces=True)
            case _:
                pass
    return found


def _one(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined

"""The state of the graph after a write, before it is written: stored rows and deltas together.

A `TableDelta` says what a write does to one table. It needs only the `checked_columns` of its type,
so a load of any size can pass the few columns that rules read. `deltas_of` makes deltas from the
effects of a change set. A `StoredImage` finds the stored rows that the deltas leave in place. It
looks rows up by value, so its cost depends on the size of the write, not of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import ID
from omnigraph.integrity.violations import Places
from omnigraph.lance_store.reads.row_lookup import (
    ROW_ADDRESS,
    ROW_ID,
    find_any,
    find_candidates,
    find_rows,
)
from omnigraph.lance_store.reads.scan import read_table
from omnigraph.lance_store.store import Store
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.changeset import EditRows, Effect, ReplaceRows

NO_IDS = pa.array([], pa.string())


_LOCATED = pa.schema({ID: pa.string(), ROW_ID: pa.uint64(), ROW_ADDRESS: pa.uint64()})


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
    """The maker of the delta knows that no id occurs twice."""
    places: Places | None = None

    @cached_property
    def written_ids(self) -> pa.Array:
        return NO_IDS if self.written is None else _one(self.written.column(ID))

    @cached_property
    def gone(self) -> pa.Array:
        """Ids whose stored row is rewritten or deleted."""
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


class StoredImage:
    """Rows of one snapshot that survive a set of deltas."""

    def __init__(self, snapshot: Snapshot, store: Store, deltas: Deltas) -> None:
        self._snapshot = snapshot
        self._store = store
        self._deltas = deltas
        self.catalog = snapshot.catalog
        self._asked: dict[TableKey, pa.Array] = {}
        self._present: dict[TableKey, pa.Array] = {}

    def delta(self, key: TableKey) -> TableDelta:
        return self._deltas.get(key) or TableDelta(key)

    def before(self, key: TableKey, ids: pa.Array, columns: Sequence[str]) -> pa.Table:
        """Stored rows with these ids, also those that the write changes."""
        return self._rows(key, ID, ids, columns)

    def surviving(
        self, key: TableKey, column: str, values: pa.Array, columns: Sequence[str]
    ) -> pa.Table:
        """Rows with one of these values that the write neither rewrites nor deletes."""
        delta = self.delta(key)
        if delta.replaces:
            return self._schema(key, columns).empty_table()
        return self._without_gone(delta, self._rows(key, column, values, columns))

    def located(
        self, key: TableKey, wanted: Mapping[str, pa.Array], stored: pa.Table | None = None
    ) -> pa.Table:
        """Row ids and addresses of surviving rows with a wanted id in one of these columns.

        `stored` are all such rows of the snapshot, if the caller has them.
        """
        delta, pin = self.delta(key), self._snapshot.pin(key)
        if delta.replaces or pin.row_count == 0:
            return _LOCATED.empty_table()
        if stored is None:
            stored = find_any(self._store.open(pin.at), wanted, [])
        return self._without_gone(delta, stored)

    def surviving_candidates(
        self, key: TableKey, wanted: Mapping[str, pa.Array], columns: Sequence[str]
    ) -> pa.Table:
        """A superset of the surviving rows that agree with `wanted` in each column."""
        delta = self.delta(key)
        if delta.replaces or self._snapshot.pin(key).row_count == 0:
            return self._schema(key, columns).empty_table()
        dataset = self._store.open(self._snapshot.pin(key).at)
        return self._without_gone(delta, find_candidates(dataset, wanted, columns))

    def all_surviving(self, key: TableKey, columns: Sequence[str]) -> pa.Table:
        delta = self.delta(key)
        if delta.replaces:
            return self._schema(key, columns).empty_table()
        dataset = self._store.open(self._snapshot.pin(key).at)
        return self._without_gone(delta, read_table(dataset, columns))

    def ids_after(self, key: TableKey) -> pa.Array:
        """Every id of the table after the write; reads the whole table."""
        stored = self.all_surviving(key, [ID]).column(ID)
        return pa.concat_arrays([*stored.chunks, self.delta(key).written_ids])

    def missing(self, key: TableKey, ids: pa.Array) -> pa.Array:
        """Which of these distinct ids are not in the table after the write; answers are cached."""
        delta = self.delta(key)
        rest = _minus(ids, delta.written_ids)
        if delta.replaces or len(rest) == 0:
            return rest
        asked = self._asked.get(key, NO_IDS)
        unknown = _minus(_minus(rest, delta.deleted), asked)
        if len(unknown):
            stored = self._rows(key, ID, unknown, [ID]).column(ID)
            present = [self._present.get(key, NO_IDS), *stored.chunks]
            self._present[key] = pa.concat_arrays(present)
            self._asked[key] = pa.concat_arrays([asked, unknown])
        return _minus(rest, self._present.get(key, NO_IDS))

    def _rows(
        self, key: TableKey, column: str, values: pa.Array, columns: Sequence[str]
    ) -> pa.Table:
        pin = self._snapshot.pin(key)
        if len(values) == 0 or pin.row_count == 0:
            return self._schema(key, columns).empty_table()
        dataset = self._store.open(pin.at)
        return find_rows(dataset, values, columns, key=column).select(list(columns))

    def _schema(self, key: TableKey, columns: Sequence[str]) -> pa.Schema:
        schema = table_schema(self.catalog.entity_type(key))
        return pa.schema([schema.field(name) for name in columns])

    @staticmethod
    def _without_gone(delta: TableDelta, rows: pa.Table) -> pa.Table:
        if len(delta.gone) == 0 or rows.num_rows == 0:
            return rows
        return rows.filter(pc.invert(pc.is_in(rows.column(ID), value_set=delta.gone)))


def _one(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


def _minus(ids: pa.Array, others: pa.Array) -> pa.Array:
    if len(others) == 0 or len(ids) == 0:
        return ids
    return ids.filter(pc.invert(pc.is_in(ids, value_set=others)))

"""A table's rows derived from an older content and what commits changed since."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import SnapshotReclaimed, StorageFailure
from omnigraph.execute.topology.id_changes import (
    MISSING,
    PositionPatch,
    Positions,
    patched_array,
)
from omnigraph.execute.topology.memory_cache import Held, counted
from omnigraph.execute.topology.stored_topology import ContentName, StoredTopology
from omnigraph.execute.topology.table_content import (
    Addresses,
    StoredContent,
    TableContent,
    by_position,
    one_chunk,
)
from omnigraph.lance_store.reads.row_lookup import ROW_ADDRESS, find_recent_rows
from omnigraph.lance_store.reads.scan import read_row_addresses, read_table
from omnigraph.lance_store.store import Dataset, DatasetVersion


class PatchedContent(TableContent):
    """Equal to the content a fresh read would give; arrays are copied only when asked for whole."""

    def __init__(
        self,
        name: ContentName,
        at: DatasetVersion,
        dataset: Dataset,
        base: StoredContent,
        patch: PositionPatch,
    ) -> None:
        super().__init__(name, at, dataset)
        self.base = base
        self.patch = patch
        self._inserted: list[str] = patch.inserted_ids.to_pylist()
        self._changed: dict[str, pa.Array] = {}

    @property
    def count(self) -> int:
        return self.patch.new_count

    @property
    def is_built(self) -> bool:
        return True

    @counted
    def ids(self) -> pa.Array:
        if not self.patch.moves:
            return self.base.ids
        return patched_array(
            self.base.ids, self.patch, self.patch.inserted_ids, self.patch.updated_ids
        )

    @property
    def ids_at_hand(self) -> pa.Array | None:
        return None if self.base.ids_at_hand is None else self.ids

    def rank(self, wanted: str) -> tuple[int, bool]:
        patch = self.patch
        before, there = self.base.rank(wanted)
        came = bisect_left(self._inserted, wanted)
        went = int(np.searchsorted(patch.deleted, before, side="left"))
        if there:
            there = went == len(patch.deleted) or patch.deleted[went] != before
        there = there or (came < len(self._inserted) and self._inserted[came] == wanted)
        return before - went + came, there

    def find_many(self, ids: pa.Array) -> Positions:
        old = self.base.find_many(ids)
        known = old != MISSING
        if len(self.patch.deleted):
            known &= ~self.patch.is_deleted(old)
        found = np.full(len(ids), MISSING, np.int32)
        found[known] = self.patch.forward(old[known])
        if self._inserted:
            place = pc.index_in(ids, value_set=self.patch.inserted_ids)
            new = place.is_valid().to_numpy(zero_copy_only=False)
            found[new] = self.patch.inserted[place.drop_null().to_numpy()]
        return found

    def load_column(self, name: str) -> pa.Array:
        try:
            old = self.base.column(name)
        except (SnapshotReclaimed, StorageFailure):
            # The version our base was read from is gone; ours holds all rows too.
            rows = read_table(self.dataset, ["id", name])
            order = np.empty(self.count, np.int64)
            order[self.find(one_chunk(rows.column("id")))] = np.arange(self.count)
            return one_chunk(rows.column(name)).take(pa.array(order))
        return patched_array(old, self.patch, *self._changed_values(name))

    def addresses_at(self, dataset: Dataset) -> Addresses:
        """Rows nobody touched stay where they are, unless a compaction moved them."""
        stored = read_row_addresses(dataset)
        if dataset is self.dataset:
            try:
                old = self.base.addresses_at(self.base.dataset)
            except (SnapshotReclaimed, StorageFailure):
                return by_position(self, dataset, stored)
            changed = self._changed_values(ROW_ADDRESS)
            placed: Addresses = patched_array(pa.array(old), self.patch, *changed).to_numpy()
            if np.array_equal(np.sort(placed), np.sort(stored)):
                return placed
        return by_position(self, dataset, stored)

    @property
    def own_bytes(self) -> int:
        ids: pa.Array | None = self.__dict__.get("ids") if self.patch.moves else None
        changed = sum(int(column.nbytes) for column in list(self._changed.values()))
        return super().own_bytes + changed + (0 if ids is None else int(ids.nbytes))

    @property
    def parts(self) -> Iterable[Held]:
        return (self.base,)

    def shed(self) -> None:
        super().shed()
        self.__dict__.pop("ids", None)

    def matches_storage(self) -> bool:
        """The rows that commits recorded are there; reads what a query will need of them anyway."""
        known = self.dataset.schema.names
        columns = [c for c in known if c in self.base.columns or c in ("src", "dst")]
        return self._read_changed(columns)

    def rows_of(self, ids: pa.Array, columns: Sequence[str]) -> pa.Table:
        if not all(name in self._changed for name in columns):
            return super().rows_of(ids, columns)
        place = pc.index_in(ids, value_set=self._changed_ids)
        if place.null_count:
            return super().rows_of(ids, columns)
        return pa.table({"id": ids, **{c: self._changed[c].take(place) for c in columns}})

    def settled(self, stored: StoredTopology) -> StoredContent:
        """The same content standing alone, with the columns that were in memory."""
        content = StoredContent(self.name, self.at, self.dataset, stored, self.ids)
        with self.base.lock:
            names = list(self.base.columns)
        content.columns.update({name: self.column(name) for name in names})
        return content

    def _changed_values(self, name: str) -> tuple[pa.Array, pa.Array]:
        """(values of the rows that came, of those rewritten), each in id order."""
        if name not in self._changed and not self._read_changed([name]):
            raise StorageFailure(f"{self.at}: rows that a commit recorded are not there")
        values, cut = self._changed[name], len(self._inserted)
        return values.slice(0, cut), values.slice(cut)

    @cached_property
    def _changed_ids(self) -> pa.Array:
        return pa.concat_arrays([self.patch.inserted_ids, self.patch.updated_ids])

    def _read_changed(self, columns: Sequence[str]) -> bool:
        ids = self._changed_ids
        rows = find_recent_rows(self.dataset, self.base.dataset, ids, columns)
        place = pc.index_in(ids, value_set=one_chunk(rows.column("id")))
        if place.null_count or rows.num_rows != len(ids):
            return False
        for column in (*columns, ROW_ADDRESS):
            self._changed[column] = one_chunk(rows.column(column)).take(place)
        return True

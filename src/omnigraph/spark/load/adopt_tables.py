"""Adopt what workers wrote; write again only what must not be adopted as it is."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.staging.written_fragments import write_to
from omnigraph.lance_store.store import Dataset
from omnigraph.load.spool import PLACE, Spool
from omnigraph.load.write_tables import TableWriter, adopt, differing
from omnigraph.manifest.records import TablePin
from omnigraph.spark.load.written_spool import PlacedPart, WrittenSpool
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.changed_ids import ChangeListWriter, Op
from omnigraph.writes.changeset import AdoptRows


class AdoptingWriter(TableWriter):
    """The writer of a load whose spools are fragments already."""

    def append(self, spool: Spool) -> AdoptRows:
        assert isinstance(spool, WrittenSpool)
        pin, dataset, changes = self._begin(spool.entity.table_key)
        fragments: tuple[str, ...] = ()
        for placed, ids in spool.ids():
            fragments += self._fragments(spool, placed, pin, dataset)
            changes.add(Op.INSERT, ids)
        return adopt(pin, fragments, changes.finish())

    def _changed(
        self, spool: Spool, pin: TablePin, dataset: Dataset, changes: ChangeListWriter
    ) -> tuple[str, ...]:
        """A part none of whose rows is stored, or said again later, is adopted as it is."""
        assert isinstance(spool, WrittenSpool)
        key = spool.entity.table_key
        fragments: tuple[str, ...] = ()
        for placed, ids in spool.ids():
            if self._all_new(key, pin, dataset, placed, ids):
                fragments += self._fragments(spool, placed, pin, dataset)
                changes.add(Op.INSERT, ids)
            else:
                rows = self._latest(key, spool.whole(placed)).drop_columns([PLACE])
                fragments += write_to(dataset, differing(dataset, rows, changes))
        return fragments

    def _all_new(
        self,
        key: TableKey,
        pin: TablePin,
        dataset: Dataset,
        placed: PlacedPart,
        ids: pa.ChunkedArray,
    ) -> bool:
        if key not in self._prepared.given_ids:
            return True
        if len(self._latest(key, pa.table({PLACE: placed.places}))) < len(ids):
            return False
        return pin.row_count == 0 or find_rows(dataset, ids.combine_chunks()).num_rows == 0

    def _fragments(
        self, spool: WrittenSpool, placed: PlacedPart, pin: TablePin, dataset: Dataset
    ) -> tuple[str, ...]:
        """The part's own files, or the same rows again when the table has another home now."""
        if (pin.location, pin.branch) == (spool.at.location, spool.at.branch):
            return placed.part.fragments
        return write_to(dataset, spool.whole(placed).drop_columns([PLACE]))

"""Adopt what workers wrote; write again only what must not be adopted as it is."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.changes.change_list import Op
from omnigraph.changes.effects import AdoptMode, AdoptRows
from omnigraph.lance_store.row_lookup import find_rows
from omnigraph.lance_store.stage_fragments import write_to
from omnigraph.lance_store.store import Dataset
from omnigraph.load.spool import PLACE, Spool
from omnigraph.load.write_tables import TableWriter, adopt, differing
from omnigraph.manifest.records import TablePin
from omnigraph.pipeline.written_spool import PlacedPart, WrittenSpool
from omnigraph.values.identifiers import TableKey


class AdoptingWriter(TableWriter):
    """The writer of a load whose spools are fragments already."""

    def append(self, spool: Spool) -> AdoptRows:
        assert isinstance(spool, WrittenSpool)
        pin, dataset, changes = self._begin(spool.entity.table_key)
        fragments: tuple[str, ...] = ()
        for placed, ids in spool.ids():
            fragments += self._fragments(spool, placed, pin, dataset)
            changes.add(Op.INSERT, ids)
        return adopt(pin, AdoptMode.APPEND, fragments, changes.finish())

    def replace(self, spool: Spool) -> AdoptRows:
        assert isinstance(spool, WrittenSpool)
        key = spool.entity.table_key
        pin, dataset, changes = self._begin(key)
        fragments: tuple[str, ...] = ()
        for placed, ids in spool.ids():
            fragments += self._fragments(spool, placed, pin, dataset)
            kept = self._stored_among(key, ids)
            changes.add(Op.UPDATE, ids.filter(kept))
            changes.add(Op.INSERT, ids.filter(pc.invert(kept)))
        self._add_gone(key, changes)
        return adopt(pin, AdoptMode.REPLACE, fragments, changes.finish())

    def merge(self, spool: Spool) -> AdoptRows:
        """A part none of whose rows is stored, or said again later, is adopted as it is."""
        assert isinstance(spool, WrittenSpool)
        key = spool.entity.table_key
        pin, dataset, changes = self._begin(key)
        fragments: tuple[str, ...] = ()
        for placed, ids in spool.ids():
            if self._all_new(key, pin, dataset, placed, ids):
                fragments += self._fragments(spool, placed, pin, dataset)
                changes.add(Op.INSERT, ids)
            else:
                rows = self._latest(key, spool.whole(placed)).drop_columns([PLACE])
                fragments += write_to(dataset, differing(dataset, rows, changes))
        return adopt(pin, AdoptMode.UPSERT, fragments, changes.finish())

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

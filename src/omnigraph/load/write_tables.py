"""Prepared rows -> fragments of their tables, with the list of ids that come, change and go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ID
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.reads.scan import read_batches
from omnigraph.lance_store.staging.written_fragments import write_to
from omnigraph.lance_store.store import Dataset, Store
from omnigraph.load.prepare_rows import PLACE
from omnigraph.load.prepared import PreparedFile, PreparedInput, PreparedTable, in_chunks
from omnigraph.manifest.changed_ids import ChangeList, ChangeListWriter, Op
from omnigraph.manifest.records import TablePin
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.changeset import AdoptRows
from omnigraph.writes.row_compare import Mask, differing_rows

_BATCH_BYTES = 256 * 1024 * 1024
_SMALLEST_BATCH = 8 * 1024
_LARGEST_BATCH = 1024 * 1024
"""Rows; the ids of the input are hashed once for every batch, so few and large ones are best."""


@dataclass(frozen=True, slots=True)
class StoredMatches:
    """Of every input row: is its id stored, and is what is stored something else?"""

    exists: Mask
    differs: Mask


def compare_with_stored(
    dataset: Dataset, rows: pa.Table, ids: pa.Array, columns: Sequence[str]
) -> StoredMatches:
    """`ids` are those of `rows`, distinct, NULL for rows that are to be passed over."""
    found = StoredMatches(np.zeros(len(ids), bool), np.zeros(len(ids), bool))
    given = _RowsByPosition(rows.select(list(columns)))
    size = rows.nbytes // max(rows.num_rows, 1) + 1
    batch_rows = min(max(_BATCH_BYTES // size, _SMALLEST_BATCH), _LARGEST_BATCH)
    for batch in read_batches(dataset, columns, batch_rows=batch_rows):
        position = pc.index_in(batch.column(ID), value_set=ids)
        if position.null_count == len(position):
            continue
        stored = pa.Table.from_batches([batch])
        if position.null_count:
            stored, position = stored.filter(position.is_valid()), position.drop_null()
        order = pc.sort_indices(position)
        at = position.take(order).to_numpy()
        found.exists[at] = True
        found.differs[at] = differing_rows(stored.take(order), given.take(at))
    return found


class _RowsByPosition:
    """Rows of many batches by position; Arrow would put the batches together each time."""

    def __init__(self, rows: pa.Table) -> None:
        self._batches = rows.to_batches()
        self._schema = rows.schema
        self._starts = np.cumsum([0, *(batch.num_rows for batch in self._batches)])

    def take(self, ascending: npt.NDArray[np.int32]) -> pa.Table:
        cuts = np.searchsorted(ascending, self._starts)
        parts = [
            batch.take(pa.array(ascending[cuts[n] : cuts[n + 1]] - self._starts[n]))
            for n, batch in enumerate(self._batches)
            if cuts[n] < cuts[n + 1]
        ]
        return pa.Table.from_batches(parts, self._schema)


_COMPARED_ROWS = 4 * 1024 * 1024
"""Of these the ids are in memory: one pass over the table for so many rows of the input."""
_LOOKED_UP_ROWS = 2000
"""So few are found by the index of the table."""


class LoadTableWriter:
    """Writes for the pins of one snapshot; of types in `repeated` the index knows the last rows."""

    def __init__(
        self,
        prepared: PreparedInput,
        store: Store,
        snapshot: Snapshot,
        repeated: frozenset[TableKey],
    ) -> None:
        self._repeated = repeated
        self._prepared = prepared
        self._index = prepared.index
        self._store = store
        self._snapshot = snapshot

    def append(self, spool: PreparedTable) -> AdoptRows:
        """Every row is new: checked before."""
        pin, dataset, changes = self._begin(spool.entity.table_key)
        fragments: tuple[str, ...] = ()
        for chunk in spool.chunks():
            fragments += write_to(dataset, chunk.drop_columns([PLACE]))
            changes.add(Op.INSERT, chunk.column(ID))
        return adopt(pin, fragments, changes.finish())

    def merge(self, spool: PreparedTable) -> AdoptRows:
        """Only rows that are new or differ from what is stored; of several the last."""
        pin, dataset, changes = self._begin(spool.entity.table_key)
        fragments = self._changed(spool, pin, dataset, changes)
        return adopt(pin, fragments, changes.finish())

    def replace(self, spool: PreparedTable) -> AdoptRows:
        """The rows are the whole table afterwards; those that are stored already stay in place.

        So the history tells what really changed, and the indexes of the table live on.
        """
        key = spool.entity.table_key
        pin, dataset, changes = self._begin(key)
        fragments = self._changed(spool, pin, dataset, changes)
        self._add_gone(key, changes)
        return adopt(pin, fragments, changes.finish())

    def remove_gone(self, key: TableKey) -> AdoptRows:
        """Edges that a cascade removes."""
        pin, _, changes = self._begin(key)
        for batch in self._index.batches(f"SELECT {ID} FROM {self._index.gone(key)}"):
            changes.add(Op.DELETE, batch.column(0))
        return adopt(pin, (), changes.finish())

    def _changed(
        self, spool: PreparedTable, pin: TablePin, dataset: Dataset, changes: ChangeListWriter
    ) -> tuple[str, ...]:
        """Write the rows that are new or differ, and list them."""
        key = spool.entity.table_key
        compared = pin.row_count > 0 and key in self._prepared.given_ids
        if compared and isinstance(spool, PreparedFile) and spool.rows > _LOOKED_UP_ROWS:
            return self._compared(spool, dataset, changes)
        fragments: tuple[str, ...] = ()
        for chunk in spool.chunks():
            rows = self._latest(key, chunk).drop_columns([PLACE])
            if compared:
                rows = differing(dataset, rows, changes)
            else:
                changes.add(Op.INSERT, rows.column(ID))
            fragments += write_to(dataset, rows)
        return fragments

    def _compared(
        self, spool: PreparedFile, dataset: Dataset, changes: ChangeListWriter
    ) -> tuple[str, ...]:
        fragments: tuple[str, ...] = ()
        columns = [name for name in spool.schema.names if name != PLACE]
        for rows in spool.mapped(_COMPARED_ROWS):
            ids = self._latest_ids(spool.entity.table_key, rows)
            found = compare_with_stored(dataset, rows, ids, columns)
            wanted = {
                Op.INSERT: ids.is_valid().to_numpy(zero_copy_only=False) & ~found.exists,
                Op.UPDATE: found.differs,
            }
            start = 0
            for chunk in in_chunks(rows.select(columns).to_batches()):
                here = slice(start, start := start + chunk.num_rows)
                parts = {op: chunk.filter(pa.array(mask[here])) for op, mask in wanted.items()}
                for op, part in parts.items():
                    changes.add(op, part.column(ID))
                fragments += write_to(dataset, pa.concat_tables(parts.values()))
        return fragments

    def _latest_ids(self, key: TableKey, rows: pa.Table) -> pa.Array:
        """The ids; NULL for rows that gave way to later ones."""
        ids = rows.column(ID).combine_chunks()
        if key not in self._repeated:
            return ids
        kept = self._latest(key, rows.select([PLACE])).column(PLACE).combine_chunks()
        return pc.if_else(pc.is_in(rows.column(PLACE), value_set=kept), ids, None).combine_chunks()

    def _add_gone(self, key: TableKey, changes: ChangeListWriter) -> None:
        """Stored rows that the input does not have."""
        if self._snapshot.pin(key).row_count == 0:
            return
        gone = (
            f"SELECT s.{ID} FROM {self._index.stored(key)} s "
            f"ANTI JOIN {self._index.input(key)} i ON s.{ID} = i.{ID}"
        )
        for batch in self._index.batches(gone):
            changes.add(Op.DELETE, batch.column(0))

    def _begin(self, key: TableKey) -> tuple[TablePin, Dataset, ChangeListWriter]:
        pin = self._snapshot.pin(key)
        path = self._prepared.folder / f"changes-{key.kind.value}-{key.type_name}.arrow"
        return pin, self._store.open(pin.at), ChangeListWriter(path)

    def _latest(self, key: TableKey, chunk: pa.Table) -> pa.Table:
        if key not in self._repeated:
            return chunk
        with self._index.shown(chunk.select([PLACE])) as shown:
            kept = self._index.table(
                f"SELECT {PLACE} FROM {shown} SEMI JOIN {self._index.input(key)} i USING ({PLACE})"
            ).column(PLACE)
        if len(kept) == chunk.num_rows:
            return chunk
        return chunk.filter(pc.is_in(chunk.column(PLACE), value_set=kept.combine_chunks()))


def differing(dataset: Dataset, rows: pa.Table, changes: ChangeListWriter) -> pa.Table:
    ids = rows.column(ID)
    stored = find_rows(dataset, ids.combine_chunks(), rows.column_names)
    position = pc.index_in(ids, value_set=stored.column(ID).combine_chunks())
    exists = position.is_valid()
    additions, rewrites = rows.filter(pc.invert(exists)), rows.filter(exists)
    replaced = stored.take(position.drop_null())
    rewrites = rewrites.filter(pa.array(differing_rows(replaced, rewrites)))
    changes.add(Op.INSERT, additions.column(ID))
    changes.add(Op.UPDATE, rewrites.column(ID))
    return pa.concat_tables([additions, rewrites])


def adopt(pin: TablePin, fragments: tuple[str, ...], changes: ChangeList) -> AdoptRows:
    return AdoptRows(pin.key, pin.location, pin.branch, fragments, changes)

"""Prepared rows -> fragments of their tables, and lists of the ids that are new, changed and gone.

An input row that equals the stored row of its id is not written. A small input is looked up by id;
a large one is compared in passes over the stored table, with the input mapped from local disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import ID
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.reads.scan import read_batches
from omnigraph.lance_store.staging.written_fragments import write_stream, write_to
from omnigraph.lance_store.store import Dataset, Store
from omnigraph.load.prepared import (
    BYTES_PER_CHUNK,
    PreparedFile,
    PreparedInput,
    PreparedTable,
    RowsByPosition,
    in_chunks,
    stored_columns,
)
from omnigraph.load.streamed_rows import StreamedTable
from omnigraph.manifest.changed_ids import ChangeList, ChangeListWriter, Op
from omnigraph.manifest.records import TablePin
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.changeset import AdoptRows
from omnigraph.writes.row_compare import Mask, differing_rows, nulled_values

_LOOKED_UP_ROWS = 2000
_CHUNK_SHARE = 2
"""So many rows are looked up by the index of the table; more are compared in a pass over it."""
_STREAMED_BYTES = 16 * 1024 * 1024
"""New rows are written so many bytes at a time, whatever their number."""
_COMPARED_ROWS = 4 * 1024 * 1024
"""Input rows that one pass over the table compares; their ids are in memory."""

_BATCH_BYTES = 256 * 1024 * 1024
_SMALLEST_BATCH = 8 * 1024
_LARGEST_BATCH = 1024 * 1024
"""Stored rows. Batches are large, because every batch hashes the ids of the input once."""


class LoadTableWriter:
    """Writes for one snapshot.

    Of types in `settled` some rows are not written, or with another id: the `KeyIndex` says how.
    Of types in `matched` some rows without an id mean stored edges. A `dry` writer only lists what
    would change.
    """

    def __init__(
        self,
        prepared: PreparedInput,
        store: Store,
        snapshot: Snapshot,
        settled: frozenset[TableKey],
        matched: frozenset[TableKey],
        *,
        dry: bool = False,
    ) -> None:
        self._dry = dry
        self._settled = settled
        self._matched = matched
        self._prepared = prepared
        self._index = prepared.index
        # A chunk is held whole, and its encoded form beside it.
        self._chunk_bytes = min(BYTES_PER_CHUNK, prepared.index.memory_bytes // _CHUNK_SHARE)
        self._store = store
        self._snapshot = snapshot

    def append(self, table: PreparedTable, *, loses: bool = False) -> AdoptRows:
        """Write all rows; the checks proved that they are new.

        If the table `loses` rows, the index has listed them as gone.
        """
        key = table.entity.table_key
        is_whole = not loses and key not in self._settled
        if is_whole and isinstance(table, StreamedTable) and table.is_for(self._snapshot.pin(key)):
            self._prepared.nulled[key] = 0
            return adopt(self._snapshot.pin(key), *table.hand_over())
        pin, dataset, changes = self._begin(key)
        fragments = self._inserted(table, dataset, changes)
        self._add_lost(key, changes, loses=loses)
        return adopt(pin, fragments, changes.finish())

    def merge(self, table: PreparedTable, *, loses: bool = False) -> AdoptRows:
        """Write rows that are new or differ from the stored row; of rows with one id, the last."""
        pin, dataset, changes = self._begin(table.entity.table_key)
        fragments = self._changed(table, pin, dataset, changes)
        self._add_lost(table.entity.table_key, changes, loses=loses)
        return adopt(pin, fragments, changes.finish())

    def replace(self, table: PreparedTable) -> AdoptRows:
        """Make the rows the whole content of the table; rows that are stored already stay in place.

        So the history shows only real changes, and the indexes of the table stay valid.
        """
        key = table.entity.table_key
        pin, dataset, changes = self._begin(key)
        fragments = self._changed(table, pin, dataset, changes)
        self._add_gone(key, changes)
        return adopt(pin, fragments, changes.finish())

    def remove_gone(self, key: TableKey) -> AdoptRows:
        """Delete the edges that a cascade removes."""
        pin, _, changes = self._begin(key)
        self._add_lost(key, changes, loses=True)
        return adopt(pin, (), changes.finish())

    def _add_lost(self, key: TableKey, changes: ChangeListWriter, *, loses: bool) -> None:
        """List the rows that the index has as gone."""
        if not loses:
            return
        for batch in self._index.batches(f"SELECT {ID} FROM {self._index.gone(key)}"):
            changes.add(Op.DELETE, batch.column(0))

    def _changed(
        self, table: PreparedTable, pin: TablePin, dataset: Dataset, changes: ChangeListWriter
    ) -> tuple[str, ...]:
        """Write the rows that are new or differ, and list them."""
        key = table.entity.table_key
        if key in self._matched and self._index.is_empty(key):
            return ()
        renamed = key in self._matched and self._index.has_renamed(key)
        compared = pin.row_count > 0 and (renamed or key in self._prepared.given_ids)
        if compared and isinstance(table, PreparedFile) and table.rows > _LOOKED_UP_ROWS:
            return self._compared(table, dataset, changes)
        if not compared:
            return self._inserted(table, dataset, changes)
        fragments: tuple[str, ...] = ()
        for chunk in table.chunks(self._chunk_bytes):
            rows = stored_columns(table.entity, self._as_written(key, chunk))
            rows = self._differing(key, dataset, rows, changes)
            fragments += self._write(dataset, rows)
            del chunk, rows  # else they stay while the next chunk is read
        return fragments

    def _inserted(
        self, table: PreparedTable, dataset: Dataset, changes: ChangeListWriter
    ) -> tuple[str, ...]:
        """Write all rows as new ones, and list them."""

        def rows() -> Iterator[pa.Table]:
            for chunk in table.chunks(min(self._chunk_bytes, _STREAMED_BYTES)):
                written = self._as_written(table.entity.table_key, chunk)
                changes.add(Op.INSERT, written.column(ID))
                yield stored_columns(table.entity, written)

        if not self._dry:
            return write_stream(dataset, rows())
        for _ in rows():
            pass
        return ()

    def _compared(
        self, file: PreparedFile, dataset: Dataset, changes: ChangeListWriter
    ) -> tuple[str, ...]:
        fragments: tuple[str, ...] = ()
        columns = table_schema(file.entity).names
        for rows in file.mapped(_COMPARED_ROWS):
            ids = self._written_ids(file.entity.table_key, rows)
            position = rows.schema.get_field_index(ID)
            rows = rows.set_column(position, rows.schema.field(position), ids)
            found = _compare_with_stored(dataset, rows, ids, columns)
            self._add_nulled(file.entity.table_key, found.nulled)
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
                fragments += self._write(dataset, pa.concat_tables(parts.values()))
        return fragments

    def _written_ids(self, key: TableKey, rows: pa.Table) -> pa.Array:
        """The ids; NULL for rows that are not written."""
        if key not in self._settled:
            return rows.column(ID).combine_chunks()
        return self._index.written_ids(key, rows)

    def _differing(
        self, key: TableKey, dataset: Dataset, rows: pa.Table, changes: ChangeListWriter
    ) -> pa.Table:
        """The rows that are new or differ from the stored row of their id; they are listed too."""
        ids = rows.column(ID)
        stored = find_rows(dataset, ids.combine_chunks(), rows.column_names)
        position = pc.index_in(ids, value_set=stored.column(ID).combine_chunks())
        exists = position.is_valid()
        additions, rewrites = rows.filter(pc.invert(exists)), rows.filter(exists)
        replaced = stored.take(position.drop_null())
        self._add_nulled(key, nulled_values(replaced, rewrites))
        rewrites = rewrites.filter(pa.array(differing_rows(replaced, rewrites)))
        changes.add(Op.INSERT, additions.column(ID))
        changes.add(Op.UPDATE, rewrites.column(ID))
        return pa.concat_tables([additions, rewrites])

    def _add_nulled(self, key: TableKey, values: int) -> None:
        self._prepared.nulled[key] += values

    def _add_gone(self, key: TableKey, changes: ChangeListWriter) -> None:
        """List the stored rows that the input does not have as deleted."""
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
        self._prepared.nulled[key] = 0
        path = self._prepared.folder / f"changes-{key.kind.value}-{key.type_name}.arrow"
        return pin, self._store.open(pin.at), ChangeListWriter(path)

    def _write(self, dataset: Dataset, rows: pa.Table) -> tuple[str, ...]:
        return () if self._dry else write_to(dataset, rows)

    def _as_written(self, key: TableKey, chunk: pa.Table) -> pa.Table:
        return self._index.as_written(key, chunk) if key in self._settled else chunk


def adopt(pin: TablePin, fragments: tuple[str, ...], changes: ChangeList) -> AdoptRows:
    return AdoptRows(pin.key, pin.location, pin.branch, fragments, changes)


@dataclass(slots=True)
class _StoredMatches:
    """For every input row: is a row with its id stored, and does the stored row differ?"""

    exists: Mask
    differs: Mask
    nulled: int = 0
    """Values that are stored and are NULL in the input."""


def _compare_with_stored(
    dataset: Dataset, rows: pa.Table, ids: pa.Array, columns: Sequence[str]
) -> _StoredMatches:
    """One pass over the table. `ids` are the ids of `rows`, distinct, and NULL for rows to skip."""
    found = _StoredMatches(np.zeros(len(ids), bool), np.zeros(len(ids), bool))
    given = RowsByPosition(rows.select(list(columns)))
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
        replaced, rewrites = stored.take(order), given.take(at)
        found.differs[at] = differing_rows(replaced, rewrites)
        found.nulled += nulled_values(replaced, rewrites)
    return found

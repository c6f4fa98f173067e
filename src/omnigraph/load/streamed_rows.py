"""Prepared rows that become fragments of their table while the input is still read.

Most loads in mode append write every row as it was prepared. A temporary file of many rows would
cost as much as their fragments, so there is none: the rows go to Lance at once, and the checks read
the columns that they need from the fragments. No version names these fragments until the commit
adopts them. A load that does not adopt them removes them.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.catalog.model import ID, EdgeType, EntityType, embedding_of
from omnigraph.commit.arming import IntentHold
from omnigraph.lance_store.staging.written_fragments import (
    remove_rows,
    write_stream,
    written_batches,
)
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.load.found_ends import EndLookup, StoredNodes
from omnigraph.load.key_index import KeyIndex
from omnigraph.load.prepare_rows import PLACE
from omnigraph.load.prepared import (
    BYTES_PER_CHUNK,
    PreparedFile,
    in_chunks,
    placed_schema,
    stored_columns,
    without_made_ids,
)
from omnigraph.load.proofs import DistinctRows
from omnigraph.manifest.changed_ids import ChangeList, ChangeListWriter, Op
from omnigraph.manifest.records import TablePin
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import TableKey
from omnigraph.values.scalars import BlobType
from omnigraph.writes.row_compare import Mask

STREAMED_ROWS = 128 * 1024
"""A type with more rows than these is streamed. The key index holds more rows than these."""
_MOST_STREAMS = 4
"""Types that are streamed in one load; each has pages of its columns in memory."""
_WAITING_TABLES = 2
_LOOK_SECONDS = 1.0
"""How often a full queue is compared with the state of the writer."""

Places = npt.NDArray[np.int64]


class StreamedTable:
    """A `PreparedTable` in fragments: append all rows, close it, then read or adopt them."""

    def __init__(
        self,
        entity: EntityType,
        store: Store,
        at: DatasetVersion,
        ids: Path,
        ends: EndLookup | None = None,
        given_ids: DistinctRows | None = None,
    ) -> None:
        """The rows are written for the dataset `at`; their ids are listed in the file `ids`.

        `ends` looks up the ends of the rows if they are edges. `given_ids` gets the ids that the
        load did not make.
        """
        self.entity = entity
        self._ends = ends
        self._given_ids = given_ids
        self.rows = 0
        self._store = store
        self._at = at
        self._listing = ChangeListWriter(ids)
        self._changes: ChangeList | None = None
        self._notes: list[_RowNotes] = []
        self._waiting: queue.Queue[pa.Table | None] = queue.Queue(_WAITING_TABLES)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="row-stream")
        given: Iterator[pa.Table] = iter(self._waiting.get, None)
        self._written: Future[tuple[str, ...]] = self._pool.submit(
            write_stream, store.open(at), given
        )
        self._is_handed_over = False

    def append(self, table: pa.Table, has_id: Mask | None = None) -> None:
        """Rows with their places; `has_id` tells which came with an id, None if all did."""
        self._notes.append(_RowNotes.of(table, has_id))
        self._listing.add(Op.INSERT, table.column(ID))
        if self._ends is not None:
            self._ends.add(table)
        if self._given_ids is not None and (has_id is None or has_id.any()):
            ids = table.select([ID])
            self._given_ids.add(ids if has_id is None else without_made_ids(ids, has_id))
        self.rows += table.num_rows
        self._send(stored_columns(self.entity, table))

    def _send(self, table: pa.Table | None) -> None:
        while True:
            with suppress(queue.Full):
                self._waiting.put(table, timeout=_LOOK_SECONDS)
                return
            if self._written.done():
                self._written.result()  # raises what stopped the writer
                return

    def close(self) -> None:
        """Wait until all rows are in fragments."""
        if self._changes is None:
            self._changes = self._listing.finish()
            self._send(None)
            self._pool.shutdown()
        self._written.result()

    def discard(self) -> None:
        """Remove the fragments, unless a change set names them."""
        if self._is_handed_over:
            return
        # The first error of the load is the one to tell.
        with suppress(Exception):
            self.close()
        if self._written.exception() is None:
            remove_rows(self._store, self._at.location, self._at.branch, self._written.result())

    def is_for(self, pin: TablePin) -> bool:
        """Whether a commit on this pin can adopt the fragments."""
        return (pin.location, pin.branch) == (self._at.location, self._at.branch)

    def hand_over(self) -> tuple[tuple[str, ...], ChangeList]:
        """The fragments and their ids, for a change set, which may be committed from now on."""
        assert self._changes is not None, "the rows are not closed"
        self._is_handed_over = True
        return self._written.result(), self._changes

    def chunks(self, most_bytes: int = BYTES_PER_CHUNK) -> Iterator[pa.Table]:
        schema = placed_schema(self.entity)
        rows = (table.cast(schema) for table in self._read(schema.names))
        batches = (batch for table in rows for batch in table.to_batches())
        return in_chunks(batches, bytes_per_chunk=most_bytes)

    def checked_rows(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """These columns, `PLACE` included, some rows at a time; ids that the load made are NULL."""
        for table, notes in self._noted(columns):
            if ID in columns and any(part.has_id is not None for part in notes):
                has_id = np.concatenate([part.given() for part in notes])
                table = without_made_ids(table, has_id)
            yield table

    def _read(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        return (table for table, _ in self._noted(columns))

    def _noted(self, columns: Sequence[str]) -> Iterator[tuple[pa.Table, list[_RowNotes]]]:
        """The rows with these columns, and what is noted about them."""
        target = self._store.address(self._at)
        stored = [name for name in columns if name != PLACE]
        notes = _NoteReader(self._notes)
        for fragment in self._written.result():
            for table in written_batches(target, fragment, stored):
                parts = notes.take(table.num_rows)
                if PLACE in columns:
                    places = np.concatenate([part.places() for part in parts])
                    table = table.append_column(PLACE, pa.array(places)).select(list(columns))
                yield table, parts


class _RowNotes:
    """What is known about some rows beside their stored columns."""

    __slots__ = ("_places", "first", "has_id", "rows")

    def __init__(self, rows: int, first: int, places: Places | None, has_id: Mask | None) -> None:
        self.rows = rows
        self.first = first
        """The place of the first row."""
        self._places = places
        """None if the places count up from the first one."""
        self.has_id = has_id

    @classmethod
    def of(cls, table: pa.Table, has_id: Mask | None) -> _RowNotes:
        places = table.column(PLACE).to_numpy()
        first, last = int(places[0]), int(places[-1])
        counts_up = last - first == len(places) - 1 and bool((places[1:] > places[:-1]).all())
        kept = None if counts_up else np.array(places)
        if has_id is not None:
            # One bit of many is enough where no row came with an id.
            has_id = np.array(has_id) if has_id.any() else np.broadcast_to(False, len(has_id))
        return cls(len(places), first, kept, has_id)

    def part(self, start: int, end: int) -> _RowNotes:
        places = None if self._places is None else self._places[start:end]
        first = self.first + start if places is None else int(places[0])
        return _RowNotes(
            end - start, first, places, None if self.has_id is None else self.has_id[start:end]
        )

    def places(self) -> Places:
        if self._places is None:
            return np.arange(self.first, self.first + self.rows, dtype=np.int64)
        return self._places

    def given(self) -> Mask:
        return np.ones(self.rows, bool) if self.has_id is None else np.asarray(self.has_id)


class _NoteReader:
    """Cuts notes as the rows are cut when they are read."""

    def __init__(self, notes: Sequence[_RowNotes]) -> None:
        self._notes = iter(notes)
        self._rest: _RowNotes | None = None

    def take(self, rows: int) -> list[_RowNotes]:
        """The notes about the next rows."""
        found = []
        while rows:
            notes = self._rest if self._rest is not None else next(self._notes)
            taken = min(rows, notes.rows)
            found.append(notes.part(0, taken))
            self._rest = notes.part(taken, notes.rows) if taken < notes.rows else None
            rows -= taken
        return found


class RowStreams:
    """The streamed tables of one load. From the first one on, cleanup is held off."""

    def __init__(
        self,
        store: Store,
        snapshot: Snapshot,
        appended: Callable[[TableKey], bool],
        hold: Callable[[], IntentHold],
        index: KeyIndex,
        nodes: StoredNodes,
        most_prepared: int = STREAMED_ROWS,
    ) -> None:
        """`appended` tells whether all rows of a type are new, and its table is the branch's own.

        A type is streamed if it has more than `most_prepared` rows. The ends of edges are looked up
        in `nodes`, and ids are hashed for `index`.
        """
        self._index = index
        self._nodes = nodes
        self._store = store
        self._snapshot = snapshot
        self._appended = appended
        self._hold_off = hold
        self._most_prepared = most_prepared
        self._tables: list[StreamedTable] = []
        self._hold: IntentHold | None = None

    def __enter__(self) -> RowStreams:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            for table in self._tables:
                table.discard()
        finally:
            if self._hold is not None:
                self._hold.__exit__(kind, error, trace)

    def check(self) -> None:
        """Raise if another process took this one for dead, because the fragments may be gone."""
        if self._hold is not None:
            self._hold.check()

    def wants(self, file: PreparedFile, more: int) -> bool:
        """Whether the rows of a file are to be streamed when `more` rows are added to them."""
        entity = file.entity
        return (
            file.rows + more > self._most_prepared
            and len(self._tables) < _MOST_STREAMS
            and self._appended(entity.table_key)
            # A blob cannot be read from a fragment, and vectors are made after the checks.
            and not any(isinstance(p.type, BlobType) or embedding_of(p) for p in entity.properties)
        )

    def begin(self, file: PreparedFile, ids: Path) -> StreamedTable:
        """A streamed table that begins with the rows of `file`, which is closed and removed."""
        if self._hold is None:
            hold = self._hold_off()
            self._hold = hold.__enter__()
        entity = file.entity
        pin = self._snapshot.pin(entity.table_key)
        ends = EndLookup(entity, self._nodes) if isinstance(entity, EdgeType) else None
        # With stored rows, the checks need a set of the ids.
        given = self._index.hash_ids(entity.table_key) if pin.row_count == 0 else None
        table = StreamedTable(entity, self._store, pin.at, ids, ends, given)
        self._tables.append(table)
        file.close()
        names = placed_schema(file.entity).names
        for rows, has_id in file.appended():
            table.append(rows.select(names), has_id)
        file.remove()
        return table

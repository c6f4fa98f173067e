"""The ids that one commit inserted, updated and deleted in one table: recorded and read back.

The commit row holds a short list itself (`TableChanges.ids`). A long list is an Arrow file in
`__history` with the columns `op` and `id`, one row for each id. This module is the only writer and
the only reader of both forms. Large loads and merges collect their ids in a local file of the same
format (`ChangeListWriter`), so that they never hold all ids in memory.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lance_store.objects.control_files import ControlFiles
from omnigraph.manifest.layout import change_list_object
from omnigraph.manifest.records import TableChanges
from omnigraph.settings.models import HistorySettings
from omnigraph.values.clock import Clock
from omnigraph.values.identifiers import TableKey

_SCHEMA = pa.schema([pa.field("op", pa.int8()), pa.field("id", pa.string())])
_COMPRESSED = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=-1))
"""As fast as lz4, in half of its bytes."""


class Op(IntEnum):
    """What happened to an entity; the values are on disk."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2


@dataclass(frozen=True, slots=True)
class ChangedIds:
    """Ids in memory, by what happened to them."""

    inserted: pa.Array
    updated: pa.Array
    deleted: pa.Array


@dataclass(frozen=True, slots=True)
class ChangeList:
    """A finished local file of changed ids, with its counts."""

    path: Path
    inserted: int
    updated: int
    deleted: int

    @property
    def total(self) -> int:
        return self.inserted + self.updated + self.deleted

    def batches(self, *ops: Op) -> Iterator[pa.Array]:
        """Ids of these operations, a batch at a time."""
        counts = {Op.INSERT: self.inserted, Op.UPDATE: self.updated, Op.DELETE: self.deleted}
        if not any(counts[op] for op in ops):
            return
        with pa.memory_map(str(self.path)) as source, pa.ipc.open_file(source) as reader:
            for index in range(reader.num_record_batches):
                ids = _ids_of(reader.get_batch(index), ops)
                if len(ids):
                    yield ids

    def read(self, op: Op) -> pa.Array:
        """All ids of one operation; for lists known to be short."""
        return pa.concat_arrays([pa.array([], pa.string()), *self.batches(op)])

    @contextmanager
    def content(self) -> Iterator[memoryview]:
        """The bytes of the file, mapped instead of read."""
        with self.path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
            window = memoryview(view)
            try:
                yield window
            finally:
                window.release()


class ChangeListWriter:
    """Collects ids into a local file; `finish` gives the list."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer = pa.ipc.new_file(str(path), _SCHEMA, options=_COMPRESSED)
        self._counts = dict.fromkeys(Op, 0)

    def add(self, op: Op, ids: pa.Array | pa.ChunkedArray) -> None:
        chunks = ids.chunks if isinstance(ids, pa.ChunkedArray) else [ids]
        for chunk in chunks:
            if len(chunk):
                self._writer.write_batch(_batch(op, chunk))
                self._counts[op] += len(chunk)

    def finish(self) -> ChangeList:
        self._writer.close()
        counts = self._counts
        return ChangeList(self._path, counts[Op.INSERT], counts[Op.UPDATE], counts[Op.DELETE])


def record_ids(
    key: TableKey,
    ids: ChangedIds | ChangeList,
    files: ControlFiles,
    settings: HistorySettings,
    clock: Clock,
) -> TableChanges:
    """What the commit row says; a long list is written to its file here, before the publish."""
    if isinstance(ids, ChangeList):
        if ids.total > settings.inline_ids:
            return _copy_to_history(key, ids, files, clock)
        ids = ChangedIds(*(ids.read(op) for op in Op))
    lists = (ids.inserted, ids.updated, ids.deleted)
    inserted, updated, deleted = (len(part) for part in lists)
    inline = file = None
    if inserted + updated + deleted <= settings.inline_ids:
        new, rewritten, gone = (tuple(part.to_pylist()) for part in lists)
        inline = (new, rewritten, gone)
    else:
        file = clock.new_ulid()
        files.put(change_list_object(file), _encode(ids))
    return TableChanges(key, inserted, updated, deleted, inline, file)


def recorded_ids(files: ControlFiles, recorded: TableChanges) -> ChangedIds | None:
    """All ids of a record; None when it names none, or when cleanup removed its file."""
    if recorded.ids is not None:
        return ChangedIds(*(pa.array(part, pa.string()) for part in recorded.ids))
    reader = _open(files, recorded)
    if reader is None:
        return None
    table = reader.read_all()
    ops, ids = table.column("op").to_numpy(), table.column("id")
    return ChangedIds(*(ids.filter(pa.array(ops == np.int8(op))).combine_chunks() for op in Op))


def recorded_id_sets(
    files: ControlFiles, recorded: TableChanges
) -> tuple[frozenset[str], frozenset[str], frozenset[str]] | None:
    """(inserted, updated, deleted) as `recorded_ids`, without a detour over Arrow if inline."""
    if recorded.ids is not None:
        inserted, updated, deleted = recorded.ids
        return frozenset(inserted), frozenset(updated), frozenset(deleted)
    found = recorded_ids(files, recorded)
    if found is None:
        return None
    new, rewritten, gone = (
        frozenset(part.to_pylist()) for part in (found.inserted, found.updated, found.deleted)
    )
    return new, rewritten, gone


def recorded_id_batches(files: ControlFiles, recorded: TableChanges) -> Iterator[pa.Array] | None:
    """The ids of all operations, a batch of a long list at a time; None as in `recorded_ids`."""
    if recorded.ids is not None:
        return (pa.array(part, pa.string()) for part in recorded.ids)
    reader = _open(files, recorded)
    if reader is None:
        return None
    return (reader.get_batch(i).column("id") for i in range(reader.num_record_batches))


def _copy_to_history(
    key: TableKey, changes: ChangeList, files: ControlFiles, clock: Clock
) -> TableChanges:
    file = clock.new_ulid()
    with changes.content() as content:
        files.put(change_list_object(file), content)
    return TableChanges(
        key, changes.inserted, changes.updated, changes.deleted, ids=None, file=file
    )


def _encode(ids: ChangedIds) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, _SCHEMA) as writer:
        for op, part in zip(Op, (ids.inserted, ids.updated, ids.deleted), strict=True):
            writer.write_batch(_batch(op, part))
    return bytes(sink.getvalue())


def _open(files: ControlFiles, recorded: TableChanges) -> pa.ipc.RecordBatchFileReader | None:
    data = files.get(change_list_object(recorded.file)) if recorded.file else None
    return None if data is None else pa.ipc.open_file(pa.py_buffer(data))


def _batch(op: Op, ids: pa.Array) -> pa.RecordBatch:
    ops = pa.array(np.full(len(ids), int(op), dtype=np.int8))
    return pa.record_batch([ops, ids.cast(pa.string())], schema=_SCHEMA)


def _ids_of(batch: pa.RecordBatch, ops: tuple[Op, ...]) -> pa.Array:
    wanted = pc.is_in(batch.column("op"), value_set=pa.array([int(op) for op in ops], pa.int8()))
    return batch.column("id").filter(wanted)

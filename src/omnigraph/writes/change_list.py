"""Ids a write inserted, updated and deleted, in an Arrow file: `op` and `id`, one row an id.

The same bytes that a long list has in `__history`; written and read in batches, so that neither
side ever holds all ids of a large load.
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

_SCHEMA = pa.schema([pa.field("op", pa.int8()), pa.field("id", pa.string())])
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd")


class Op(IntEnum):
    """What happened to an entity; the values are on disk."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2


@dataclass(frozen=True, slots=True)
class ChangeList:
    """A finished file of changed ids on this machine, with its counts."""

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
                yield from _ids_of(reader.get_batch(index), ops)

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
    """Collects ids into a file; `finish` gives the list."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer = pa.ipc.new_file(str(path), _SCHEMA, options=_COMPRESSED)
        self._counts = dict.fromkeys(Op, 0)

    def add(self, op: Op, ids: pa.Array | pa.ChunkedArray) -> None:
        chunks = ids.chunks if isinstance(ids, pa.ChunkedArray) else [ids]
        for chunk in chunks:
            if len(chunk):
                self._writer.write_batch(change_batch(op, chunk))
                self._counts[op] += len(chunk)

    def finish(self) -> ChangeList:
        self._writer.close()
        counts = self._counts
        return ChangeList(self._path, counts[Op.INSERT], counts[Op.UPDATE], counts[Op.DELETE])


def change_batch(op: Op, ids: pa.Array) -> pa.RecordBatch:
    ops = pa.array(np.full(len(ids), int(op), dtype=np.int8))
    return pa.record_batch([ops, ids.cast(pa.string())], schema=_SCHEMA)


def encode_changes(inserted: pa.Array, updated: pa.Array, deleted: pa.Array) -> bytes:
    """The file of lists that are in memory anyway."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, _SCHEMA) as writer:
        for op, ids in zip(Op, (inserted, updated, deleted), strict=True):
            writer.write_batch(change_batch(op, ids))
    return bytes(sink.getvalue())


def _ids_of(batch: pa.RecordBatch, ops: tuple[Op, ...]) -> Iterator[pa.Array]:
    wanted = pc.is_in(batch.column("op"), value_set=pa.array([int(op) for op in ops], pa.int8()))
    ids = batch.column("id").filter(wanted)
    if len(ids):
        yield ids

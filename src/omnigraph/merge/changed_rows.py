"""Rows that a merge writes and ids that it changes: in memory while few, then in scratch files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ID, EntityType
from omnigraph.diff.id_runs import Scratch
from omnigraph.integrity.deltas import TableDelta
from omnigraph.integrity.rules import checked_columns
from omnigraph.writes.change_list import ChangeList, ChangeListWriter, Op
from omnigraph.writes.row_compare import Mask

ROWS_IN_MEMORY = 200_000
BYTES_IN_MEMORY = 128 * 1024 * 1024


class ChangedRows:
    """Collects what happens to one table, in id order; asked only when all is in."""

    def __init__(self, schema: pa.Schema, scratch: Scratch) -> None:
        """`schema` is that of the rows kept here: of all columns, or of those that rules need."""
        self._schema = schema
        self._scratch = scratch
        self._written: list[pa.Table] = []
        self._ids: dict[Op, list[pa.Array]] = {op: [] for op in Op}
        self._rows = self._bytes = 0
        self._spilled: _Spilled | None = None

    def add(self, written: pa.Table, is_new: Mask, deleted: pa.Array) -> None:
        ids, new = written.column(ID), pa.array(is_new)
        self._ids[Op.INSERT] += ids.filter(new).chunks
        self._ids[Op.UPDATE] += ids.filter(pc.invert(new)).chunks
        self._ids[Op.DELETE].append(deleted)
        if written.num_rows:
            self._written.append(written)
        self._rows += written.num_rows + len(deleted)
        self._bytes += written.nbytes
        if self._rows > ROWS_IN_MEMORY or self._bytes > BYTES_IN_MEMORY:
            self._spill()

    @property
    def is_empty(self) -> bool:
        return self._rows == 0

    @property
    def in_memory(self) -> bool:
        return self._spilled is None

    def ids(self, op: Op) -> pa.Array:
        if self._spilled is not None:
            return self._spilled.changes.read(op)
        return pa.concat_arrays([pa.array([], pa.string()), *self._ids[op]])

    def tables(self) -> Iterator[pa.Table]:
        """Every written row; of spilled ones, columns of a mapped file."""
        yield from self._written if self._spilled is None else self._spilled.tables()

    def delta(self, entity: EntityType, *, creates: bool) -> TableDelta:
        """What graph rules need to know."""
        tables = [table.select(list(checked_columns(entity))) for table in self.tables()]
        written = pa.concat_tables(tables) if tables else None
        if creates:
            return TableDelta(entity.table_key, written, replaces=True, distinct=True)
        return TableDelta(entity.table_key, written, self.ids(Op.DELETE), distinct=True)

    def listed(self) -> ChangeList:
        """All ids as the file that a commit records."""
        return self._spill().changes

    def discard(self) -> None:
        """Another round of the merge makes these rows anew."""
        if self._spilled is not None:
            self._spilled.remove()

    def _spill(self) -> _Spilled:
        if self._spilled is None:
            self._spilled = _Spilled(self._scratch, self._schema)
        self._spilled.write(self._written, self._ids)
        self._written, self._ids = [], {op: [] for op in Op}
        return self._spilled


class _Spilled:
    """Rows and changed ids in scratch files: written once, then read."""

    def __init__(self, scratch: Scratch, schema: pa.Schema) -> None:
        self._path = scratch.new_file(".arrow")
        self._rows = pa.ipc.new_file(str(self._path), schema)
        self._ids = ChangeListWriter(scratch.new_file(".arrow"))

    def write(self, tables: list[pa.Table], ids: dict[Op, list[pa.Array]]) -> None:
        for table in tables:
            self._rows.write_table(table)
        for op, parts in ids.items():
            for part in parts:
                self._ids.add(op, part)

    @cached_property
    def changes(self) -> ChangeList:
        return self._ids.finish()

    def tables(self) -> Iterator[pa.Table]:
        reader = self._reader
        for index in range(reader.num_record_batches):
            yield pa.Table.from_batches([reader.get_batch(index)])

    def remove(self) -> None:
        self._rows.close()
        self._path.unlink()
        self.changes.path.unlink()

    @cached_property
    def _reader(self) -> pa.ipc.RecordBatchFileReader:
        self._rows.close()
        return pa.ipc.open_file(pa.memory_map(str(self._path)))

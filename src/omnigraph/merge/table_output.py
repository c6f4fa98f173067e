"""What a merge does to one table: in memory while it is small, in scratch files beyond that."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.columns import ID
from omnigraph.catalog.model import EntityType
from omnigraph.changes.change_list import ChangeList, ChangeListWriter, Op
from omnigraph.changes.effects import AdoptRows, EditRows, Located, ReplaceRows
from omnigraph.diff.id_runs import Scratch
from omnigraph.integrity.deltas import TableDelta
from omnigraph.integrity.rules import checked_columns
from omnigraph.lance_store.staging.stage_fragments import write_to
from omnigraph.lance_store.store import Store
from omnigraph.manifest.records import TablePin
from omnigraph.merge.three_way import MergedRows

ROWS_IN_MEMORY = 200_000
BYTES_IN_MEMORY = 128 * 1024 * 1024
_ROWS_PER_FRAGMENT = 500_000
BYTES_PER_FRAGMENT = 512 * 1024 * 1024


class TableOutput:
    """Collects merged chunks of one table in id order; asked only when all are in."""

    def __init__(self, entity: EntityType, scratch: Scratch) -> None:
        self.entity = entity
        self.key = entity.table_key
        self._scratch = scratch
        self._schema = table_schema(entity)
        self._written: list[pa.Table] = []
        self._ids: dict[Op, list[pa.Array]] = {op: [] for op in Op}
        self._located: list[Located] = []
        self._rows = self._bytes = 0
        self._spilled: _Spilled | None = None

    def add(self, merged: MergedRows) -> None:
        ids = merged.written.column(ID)
        new = pa.array(merged.is_new)
        self._ids[Op.INSERT] += ids.filter(new).chunks
        self._ids[Op.UPDATE] += ids.filter(pc.invert(new)).chunks
        self._ids[Op.DELETE].append(merged.deleted)
        self._located.append(merged.located)
        if merged.written.num_rows:
            self._written.append(merged.written)
        self._rows += merged.written.num_rows + len(merged.deleted)
        self._bytes += merged.written.nbytes
        if self._rows > ROWS_IN_MEMORY or self._bytes > BYTES_IN_MEMORY:
            self._spill()

    @property
    def is_empty(self) -> bool:
        return self._rows == 0

    def ids(self, op: Op) -> pa.Array:
        if self._spilled is not None:
            return self._spilled.changes.read(op)
        return pa.concat_arrays([pa.array([], pa.string()), *self._ids[op]])

    def delta(self, *, creates: bool) -> TableDelta:
        """What graph rules need to know; of spilled rows, columns of a mapped file."""
        tables = [table.select(list(checked_columns(self.entity))) for table in self.batches()]
        written = pa.concat_tables(tables) if tables else None
        if creates:
            return TableDelta(self.key, written, replaces=True, distinct=True)
        return TableDelta(self.key, written, self.ids(Op.DELETE), distinct=True)

    def batches(self) -> Iterator[pa.Table]:
        """Every written row."""
        yield from self._written if self._spilled is None else self._spilled.tables()

    def first_rows(self) -> ReplaceRows:
        """The effect on a table that the same commit creates."""
        rows = list(self.batches()) or [self._schema.empty_table()]
        return ReplaceRows(self.key, pa.concat_tables(rows))

    def effect(
        self, store: Store, pin: TablePin, merged_at: TablePin | None
    ) -> EditRows | AdoptRows:
        """The effect on our table, which is ours to write by now; it was merged at `merged_at`."""
        if self._spilled is None:
            deletes = self.ids(Op.DELETE)
            return EditRows(
                self.key,
                upserts=pa.concat_tables(self._written) if self._written else None,
                deletes=deletes if len(deletes) else None,
                located=_all_located(self._located) if pin == merged_at else Located(),
            )
        dataset = store.open(pin.at)
        fragments: list[str] = []
        for rows in _gathered(self.batches()):
            fragments += write_to(dataset, rows)
        return AdoptRows(
            self.key, pin.location, pin.branch, tuple(fragments), self._spilled.changes
        )

    def discard(self) -> None:
        """Another round of the merge makes these rows anew."""
        if self._spilled is not None:
            self._spilled.remove()

    def _spill(self) -> None:
        if self._spilled is None:
            self._spilled = _Spilled(self._scratch, self._schema)
        self._spilled.write(self._written, self._ids)
        self._written, self._ids, self._located = [], {op: [] for op in Op}, []


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


def _gathered(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        waiting.append(table)
        rows, size = rows + table.num_rows, size + table.nbytes
        if rows >= _ROWS_PER_FRAGMENT or size >= BYTES_PER_FRAGMENT:
            yield pa.concat_tables(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_tables(waiting)


def _all_located(parts: list[Located]) -> Located:
    upserted = [part.upserted for part in parts if part.upserted is not None]
    deleted = [part.deleted for part in parts if part.deleted is not None]
    absent = [part.absent for part in parts if part.absent is not None]
    return Located(
        pa.concat_tables(upserted) if upserted else None,
        pa.concat_tables(deleted) if deleted else None,
        pa.concat_arrays(absent) if absent else None,
    )

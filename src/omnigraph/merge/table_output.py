"""What a merge does to one table: in memory while it is small, in scratch files beyond that."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.columns import ID
from omnigraph.catalog.model import EntityType
from omnigraph.changes.change_list import ChangeListWriter, Op
from omnigraph.changes.effects import AdoptRows, EditRows, Located, ReplaceRows
from omnigraph.diff.id_runs import Scratch
from omnigraph.integrity.deltas import TableDelta
from omnigraph.integrity.rules import checked_columns
from omnigraph.lance_store.stage_fragments import write_to
from omnigraph.lance_store.store import Store
from omnigraph.manifest.records import TablePin
from omnigraph.merge.three_way import MergedRows

ROWS_IN_MEMORY = 200_000
_ROWS_PER_FRAGMENT = 500_000


class TableOutput:
    """Collects merged chunks of one table in id order."""

    def __init__(self, entity: EntityType, scratch: Scratch, in_memory: int) -> None:
        self.entity = entity
        self.key = entity.table_key
        self._scratch = scratch
        self._in_memory = in_memory
        self._schema = table_schema(entity)
        self._written: list[pa.Table] = []
        self._narrow: list[pa.Table] = []
        self._ids: dict[Op, list[pa.Array]] = {op: [] for op in Op}
        self._located: list[Located] = []
        self._rows = 0
        self._file: str | None = None
        self._writer: pa.ipc.RecordBatchFileWriter | None = None

    def add(self, merged: MergedRows) -> None:
        self._ids[Op.DELETE].append(merged.deleted)
        self._located.append(merged.located)
        if merged.written.num_rows == 0:
            return
        ids = merged.written.column(ID)
        new = pa.array(merged.is_new)
        self._ids[Op.INSERT] += ids.filter(new).chunks
        self._ids[Op.UPDATE] += ids.filter(pc.invert(new)).chunks
        self._narrow.append(merged.written.select(list(checked_columns(self.entity))))
        self._written.append(merged.written)
        self._rows += merged.written.num_rows
        if self._rows > self._in_memory:
            self._spill()

    @property
    def is_empty(self) -> bool:
        return not any(len(ids) for parts in self._ids.values() for ids in parts)

    def ids(self, *ops: Op) -> pa.Array:
        parts = [part for op in ops for part in self._ids[op]]
        return pa.concat_arrays([pa.array([], pa.string()), *parts])

    def delta(self, *, creates: bool) -> TableDelta:
        """What graph rules need to know."""
        written = pa.concat_tables(self._narrow) if self._narrow else None
        if creates:
            return TableDelta(self.key, written, replaces=True)
        return TableDelta(self.key, written, self.ids(Op.DELETE))

    def batches(self) -> Iterator[pa.Table]:
        """Every written row."""
        if self._file is None:
            yield from self._written
            return
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        with pa.memory_map(self._file) as source, pa.ipc.open_file(source) as reader:
            for index in range(reader.num_record_batches):
                yield pa.Table.from_batches([reader.get_batch(index)])

    def first_rows(self) -> ReplaceRows:
        """The effect on a table that the same commit creates."""
        rows = list(self.batches()) or [self._schema.empty_table()]
        return ReplaceRows(self.key, pa.concat_tables(rows))

    def effect(
        self, store: Store, pin: TablePin, merged_at: TablePin | None
    ) -> EditRows | AdoptRows:
        """The effect on our table, which is ours to write by now; it was merged at `merged_at`."""
        if self._file is None:
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
        changes = ChangeListWriter(self._scratch.new_file(".arrow"))
        for op, parts in self._ids.items():
            for part in parts:
                changes.add(op, part)
        return AdoptRows(
            self.key,
            pin.location,
            pin.branch,
            tuple(fragments),
            changes.finish(),
        )

    def _spill(self) -> None:
        if self._writer is None:
            self._file = str(self._scratch.new_file(".arrow"))
            self._writer = pa.ipc.new_file(self._file, self._schema)
        for table in self._written:
            self._writer.write_table(table)
        self._written = []


def _gathered(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(t.num_rows for t in waiting) >= _ROWS_PER_FRAGMENT:
            yield pa.concat_tables(waiting)
            waiting = []
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

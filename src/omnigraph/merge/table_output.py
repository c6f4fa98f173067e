"""What a merge does to one table, made of the merged rows themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import pyarrow as pa

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import EntityType
from omnigraph.diff.id_runs import Scratch
from omnigraph.integrity.deltas import TableDelta
from omnigraph.lance_store.staging.written_fragments import write_to
from omnigraph.lance_store.store import Store
from omnigraph.manifest.records import TablePin
from omnigraph.merge.changed_rows import ChangedRows
from omnigraph.merge.three_way import MergedRows
from omnigraph.writes.change_list import Op
from omnigraph.writes.effects import AdoptRows, ContentEffect, EditRows, Located, ReplaceRows

_ROWS_PER_FRAGMENT = 500_000
BYTES_PER_FRAGMENT = 512 * 1024 * 1024


class Output(Protocol):
    """What a merge does to one table, wherever its rows were merged."""

    @property
    def entity(self) -> EntityType: ...

    @property
    def is_empty(self) -> bool: ...

    def delta(self, *, creates: bool) -> TableDelta:
        """What graph rules need to know; `creates`: the table holds nothing else."""

    def effect(
        self, store: Store, pin: TablePin | None, merged_at: TablePin | None
    ) -> ContentEffect:
        """The effect on our table, which is ours to write by now; it was merged at `merged_at`.

        Without a pin: on a table that the same commit creates.
        """

    def discard(self) -> None:
        """Another round of the merge makes these rows anew."""


class TableOutput:
    """Collects merged chunks of one table in id order; asked only when all are in."""

    def __init__(self, entity: EntityType, scratch: Scratch) -> None:
        self.entity = entity
        self._schema = table_schema(entity)
        self._rows = ChangedRows(self._schema, scratch)
        self._located: list[Located] = []

    def add(self, merged: MergedRows) -> None:
        self._rows.add(merged.written, merged.is_new, merged.deleted)
        if self._rows.in_memory:
            self._located.append(merged.located)
        else:
            self._located.clear()

    @property
    def is_empty(self) -> bool:
        return self._rows.is_empty

    def ids(self, op: Op) -> pa.Array:
        return self._rows.ids(op)

    def delta(self, *, creates: bool) -> TableDelta:
        return self._rows.delta(self.entity, creates=creates)

    def batches(self) -> Iterator[pa.Table]:
        """Every written row."""
        return self._rows.tables()

    def effect(
        self, store: Store, pin: TablePin | None, merged_at: TablePin | None
    ) -> ContentEffect:
        if pin is None:
            rows = list(self.batches()) or [self._schema.empty_table()]
            return ReplaceRows(self.entity.table_key, pa.concat_tables(rows))
        if self._rows.in_memory:
            return self._edit(unmoved=pin == merged_at)
        dataset = store.open(pin.at)
        fragments = [f for rows in fragment_sized(self.batches()) for f in write_to(dataset, rows)]
        return AdoptRows(pin.key, pin.location, pin.branch, tuple(fragments), self._rows.listed())

    def _edit(self, *, unmoved: bool) -> EditRows:
        written, deletes = list(self.batches()), self.ids(Op.DELETE)
        return EditRows(
            self.entity.table_key,
            upserts=pa.concat_tables(written) if written else None,
            deletes=deletes if len(deletes) else None,
            located=_all_located(self._located) if unmoved else Located(),
        )

    def discard(self) -> None:
        self._rows.discard()


def fragment_sized(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in pieces that are worth a file of their own."""
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

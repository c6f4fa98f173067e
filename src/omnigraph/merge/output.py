"""Where the rows of a merge are computed, and what comes out for each table.

A `MergeEngine` is chosen for the whole merge: this process or Spark. Its `RowMerger` merges one
type after the other. For each it returns a `TableOutput`, which knows the effect on our table.
Outputs hold few rows in memory, and many rows in scratch files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import ID, EntityType
from omnigraph.diff.id_runs import IdRuns, Scratch
from omnigraph.integrity.row_checks import check_rows
from omnigraph.integrity.rules import checked_columns
from omnigraph.integrity.stored_image import TableDelta
from omnigraph.integrity.violations import Report
from omnigraph.lance_store.staging.written_fragments import write_to
from omnigraph.lance_store.store import Store
from omnigraph.manifest.changed_ids import ChangeList, ChangeListWriter, Op
from omnigraph.manifest.records import TablePin
from omnigraph.merge.conflicts import Conflict
from omnigraph.merge.decisions import Decisions
from omnigraph.merge.tables import TableMerge
from omnigraph.merge.three_way import MergedRows
from omnigraph.values.known_names import LOCAL
from omnigraph.writes.changeset import (
    AdoptRows,
    ContentEffect,
    EditRows,
    Located,
    ReplacedRows,
    ReplaceRows,
)
from omnigraph.writes.row_compare import Mask

ROWS_IN_MEMORY = 200_000


BYTES_IN_MEMORY = 128 * 1024 * 1024


_ROWS_PER_FRAGMENT = 500_000


BYTES_PER_FRAGMENT = 512 * 1024 * 1024


MOST_CONFLICTS = 10_000
"""At most this many conflicts are listed; further ones are only counted."""


MOST_VIOLATIONS = 10_000


@dataclass
class MergeFindings:
    """Conflicts of a merge, and violations of rules by single rows."""

    conflicts: list[Conflict] = field(default_factory=list)
    conflict_count: int = 0
    report: Report = field(default_factory=lambda: Report(MOST_VIOLATIONS))
    types: set[str] = field(default_factory=set)
    """The types in conflict, also of conflicts that are only counted."""
    shown: Collection[str] | None = None
    """Conflicts of other types are neither listed nor counted; None: all are."""

    def add(self, conflicts: list[Conflict], count: int | None = None) -> None:
        """Conflicts in order; `count` is the number of all if not all are listed."""
        self.types.update(conflict.type_name for conflict in conflicts)
        if self.shown is not None:
            conflicts = [c for c in conflicts if c.type_name in self.shown]
        self.conflict_count += len(conflicts) if count is None else count
        self.conflicts += conflicts[: MOST_CONFLICTS - len(self.conflicts)]


class TableOutput(Protocol):
    """What a merge does to one table; the rows can be in this process or with workers."""

    @property
    def entity(self) -> EntityType: ...

    @property
    def is_empty(self) -> bool: ...

    def delta(self, *, creates: bool) -> TableDelta:
        """What graph rules need to know; `creates`: the table holds no other rows."""

    def effect(
        self, store: Store, pin: TablePin | None, merged_at: TablePin | None
    ) -> ContentEffect:
        """The effect on our table at `pin`; its rows were read at `merged_at`.

        `pin` is None for a table that the same commit creates.
        """

    def discard(self) -> None:
        """Remove scratch files; another round of the merge makes these rows again."""


OutputT_co = TypeVar("OutputT_co", bound=TableOutput, covariant=True)


class RowMerger(Protocol[OutputT_co]):
    """Merges the rows of one type after the other."""

    def merge_table(
        self, table: TableMerge, ids: IdRuns, decisions: Decisions, findings: MergeFindings
    ) -> OutputT_co:
        """What happens to our table; conflicts and violations go to `findings`, in id order."""


@dataclass(frozen=True, slots=True)
class MergeEngine:
    """Where the rows of a whole merge are computed."""

    name: str
    reason: str
    """Why this engine was chosen."""
    start: Callable[[Store, Scratch, str], RowMerger[TableOutput]]
    """Called with the incarnation of the target branch, whose own tables may be written."""
    writes_ahead: bool = False
    """It writes rows into files of the target's tables before the commit."""


@dataclass(frozen=True, slots=True)
class LocalRowMerger:
    """Merges rows in this process."""

    store: Store
    scratch: Scratch

    def merge_table(
        self, table: TableMerge, ids: IdRuns, decisions: Decisions, findings: MergeFindings
    ) -> LocalOutput:
        output = LocalOutput(table.entity, self.scratch)
        for chunk in table.chunks(self.store, ids, decisions):
            findings.add(chunk.conflicts)
            check_rows(table.entity, chunk.written, findings.report)
            output.add(chunk)
        return output


def _here(store: Store, scratch: Scratch, owner: str) -> LocalRowMerger:
    del owner
    return LocalRowMerger(store, scratch)


LOCAL_ENGINE = MergeEngine(LOCAL, "asked for", _here)


class LocalOutput:
    """Collects the merged chunks of one table in id order; read only after the last chunk."""

    def __init__(self, entity: EntityType, scratch: Scratch) -> None:
        self.entity = entity
        self._schema = table_schema(entity)
        self._rows = ChangedRows(self._schema, scratch)
        self._located: list[Located] = []
        self._replaced: list[pa.ChunkedArray] | None = []

    def add(self, merged: MergedRows) -> None:
        self._rows.add(merged.written, merged.is_new, merged.deleted)
        if self._replaced is not None and merged.replaced is not None:
            self._replaced.append(merged.replaced)
        else:
            self._replaced = None
        if self._rows.in_memory:
            self._located.append(merged.located())
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
        found = self._replaced if pin == merged_at else None
        return AdoptRows(
            pin.key,
            pin.location,
            pin.branch,
            tuple(fragments),
            self._rows.listed(),
            None if found is None else ReplacedRows(pin.version, tuple(found)),
        )

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


class ChangedRows:
    """Rows written and ids changed in one table, in id order; read only after the last `add`."""

    def __init__(self, schema: pa.Schema, scratch: Scratch) -> None:
        """`schema` has the columns to keep: all of them, or only those that rules read."""
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
        """Every written row; spilled rows come from a mapped file."""
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
        """Remove scratch files."""
        if self._spilled is not None:
            self._spilled.remove()

    def _spill(self) -> _Spilled:
        if self._spilled is None:
            self._spilled = _Spilled(self._scratch, self._schema)
        self._spilled.write(self._written, self._ids)
        self._written, self._ids = [], {op: [] for op in Op}
        return self._spilled


class _Spilled:
    """Rows and changed ids in scratch files: all writes come before the first read."""

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


def fragment_sized(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows, in pieces that are large enough for a file each."""
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

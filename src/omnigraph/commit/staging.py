"""Stage the effects of a write as Lance transactions, with the ids they change.

Staging writes data files and moves no HEAD. `KnownIds` saves inserts the lookup of existing ids.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import ExpectedVersionMismatch, KeyConflict
from omnigraph.lance_store.reads.row_lookup import ROW_ADDRESS, ROW_ID, find_rows
from omnigraph.lance_store.reads.scan import read_ids
from omnigraph.lance_store.staging.columns import preview_columns, stage_columns, stage_then
from omnigraph.lance_store.staging.compaction import stage_compaction
from omnigraph.lance_store.staging.index_builds import stage_indexes, stage_without_inherited
from omnigraph.lance_store.staging.stage import (
    RowEdit,
    StagedWrite,
    WrittenEdit,
    drop_preview,
    stage_overwrite,
    stage_written,
    write_edit,
)
from omnigraph.lance_store.staging.written_fragments import addresses_of, stage_adoption
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.manifest.changed_ids import ChangedIds, ChangeList, Op, record_ids
from omnigraph.manifest.publication import TableMove
from omnigraph.manifest.records import StoredCommit, TableChanges, TablePin
from omnigraph.settings.models import HistorySettings
from omnigraph.values.bounded_cache import BoundedCache
from omnigraph.values.clock import Clock
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.changeset import (
    AdoptCompaction,
    AdoptIndexes,
    AdoptRows,
    EditRows,
    Effect,
    LeaveInheritedIndexes,
    PhysicalEffect,
    ReplaceRows,
    ReshapeTable,
)
from omnigraph.writes.row_compare import differing_rows

_LARGEST_TABLE = 1_000_000
# More than one table, because a set that is dropped for another one is soon read again.
_LARGEST_TOTAL = 1_500_000
_MOST_TABLES = 4096
_LOOKUPS_BEFORE_SCAN = 3
# Reading the ids of so many rows takes as long as one lookup.
_ROWS_PER_LOOKUP = 4000

_NAMED_IDS = 10

_TableContent = tuple[str, str]
"""Location and content epoch of a table."""


@dataclass(frozen=True, slots=True)
class EveryRow:
    """All rows may have changed, and no list of their ids is made."""

    count: int


@dataclass(frozen=True, slots=True)
class StagedTable:
    """One table's part of a write, ready to advance."""

    pin: TablePin
    write: StagedWrite
    changed: ChangedIds | ChangeList | EveryRow | None

    def move(self, commit_id: str) -> TableMove:
        version = self.write.result_version
        if self.changed is None:
            after = self.pin.moved_to(version)
        else:
            after = self.pin.changed_to(version, self.write.row_count, commit_id)
        return TableMove(self.pin, after, self.write.uuid)


MayExist = Callable[[TablePin, pa.Array], pa.Array]


def stage(store: Store, pin: TablePin, effect: Effect, may_exist: MayExist) -> StagedTable | None:
    """Stage one effect; None when it changes nothing, because then the table needs no new version.

    `may_exist` reduces ids to those that the table may hold: only they are looked up.
    """
    match effect:
        case EditRows():
            return _stage_rows(store, pin, effect, may_exist)
        case ReplaceRows(rows=rows):
            return _stage_replacement(store, pin, rows)
        case AdoptRows():
            return _stage_adoption(store, pin, effect)
        case AdoptCompaction():
            return _stage_compaction(store, pin, effect)
        case AdoptIndexes():
            return _stage_indexes(store, pin, effect)
        case ReshapeTable():
            return _stage_reshape(store, pin, effect, may_exist)
        case LeaveInheritedIndexes():
            _require_unmoved(pin, effect)
            return _if_any(pin, stage_without_inherited(store, pin.at))


def record_first_rows(
    key: TableKey, rows: pa.Table, store: Store, settings: HistorySettings, clock: Clock
) -> TableChanges:
    """The ids of a table that is created with rows, for the commit row."""
    none = pa.array([], pa.string())
    return record_ids(key, ChangedIds(_ids([rows]), none, none), store.files, settings, clock)


def record_changes(
    staged: StagedTable | FoundEdit, store: Store, settings: HistorySettings, clock: Clock
) -> TableChanges | None:
    """The ids for the commit row; None when the staged write changes no row."""
    if staged.changed is None:
        return None
    if isinstance(staged.changed, EveryRow):
        return TableChanges(staged.pin.key, 0, staged.changed.count, 0, ids=None)
    return record_ids(staged.pin.key, staged.changed, store.files, settings, clock)


@dataclass(frozen=True, slots=True)
class FoundEdit:
    """One table's part of a small write: its stored rows are found, and no file is written."""

    pin: TablePin
    rows: RowEdit
    changed: ChangedIds

    @property
    def only_added(self) -> pa.Table | None:
        """The new rows of an edit that does nothing else."""
        edit = self.rows
        return edit.written if edit.rewritten is None and edit.deleted is None else None

    def after(self, commit_id: str) -> TablePin:
        """The pin of the table with this edit."""
        rows = self.pin.row_count + self.rows.added
        return self.pin.changed_to(self.pin.version + 1, rows, commit_id)

    def written(self, store: Store, files_at: DatasetVersion) -> EditedTable:
        """The edit with its new rows in files of `files_at`, which is any version of the table."""
        return EditedTable(self.pin, write_edit(store, files_at, self.rows), self.changed)


@dataclass(frozen=True, slots=True)
class EditedTable:
    """One table's part of a small write: its rows are in files, its transaction is not made."""

    pin: TablePin
    edit: WrittenEdit
    changed: ChangedIds

    def staged(self, store: Store) -> StagedTable:
        """The transaction."""
        write = stage_written(store, self.pin.at, self.edit)
        return StagedTable(self.pin, write, self.changed)


def find_edit(store: Store, pin: TablePin, edit: EditRows, may_exist: MayExist) -> FoundEdit | None:
    """What an edit does to the rows of `pin`; None when it changes nothing.

    The version of the pin is opened only when rows of it have to be found.
    """
    sought = may_exist(pin, _unlocated(edit))
    if len(sought) == 0 and edit.located.upserted is None and edit.located.deleted is None:
        new = [t for t in (edit.inserts, edit.upserts) if t is not None and t.num_rows]
        if not new:
            return None
        none = pa.array([], pa.string())
        rows = RowEdit(pa.concat_tables(new), None, None)
        return FoundEdit(pin, rows, ChangedIds(_ids(new), none, none))
    return _find_rows_of(store, pin, edit, sought)


def _find_rows_of(
    store: Store, pin: TablePin, edit: EditRows, sought: pa.Array
) -> FoundEdit | None:
    dataset = store.open(pin.at)
    inserts, upserts, deletes = edit.inserts, edit.upserts, edit.deletes
    columns = upserts.column_names if upserts is not None else []
    stored = find_rows(dataset, sought, columns) if len(sought) else None
    if inserts is not None and stored is not None:
        _refuse_existing(pin, inserts, stored)
    gone = edit.located.deleted if deletes is not None else None
    if deletes is not None and stored is not None:
        found = stored.filter(pc.is_in(stored.column("id"), value_set=deletes))
        gone = _joined(found.select(["id", ROW_ID, ROW_ADDRESS]), edit.located.deleted)
    located = edit.located.upserted
    split = _split_upserts(located if stored is None else _joined(stored, located), upserts)
    new = [t for t in (inserts, split.additions) if t is not None and t.num_rows]
    written = [t for t in (split.rewrites, *new) if t is not None and t.num_rows]
    if not written and (gone is None or gone.num_rows == 0):
        return None
    rows = pa.concat_tables(written) if written else None
    changed = ChangedIds(
        inserted=_ids(new),
        updated=_ids([split.rewrites] if split.rewrites is not None else []),
        deleted=_ids([gone] if gone is not None else []),
    )
    return FoundEdit(pin, RowEdit(rows, split.replaced, gone), changed)


def _stage_rows(
    store: Store, pin: TablePin, edit: EditRows, may_exist: MayExist
) -> StagedTable | None:
    found = find_edit(store, pin, edit, may_exist)
    return None if found is None else found.written(store, pin.at).staged(store)


def _stage_replacement(store: Store, pin: TablePin, rows: pa.Table) -> StagedTable:
    before = store.open(pin.at).to_table(columns=["id"]).column("id")
    after = rows.column("id")
    kept = pc.is_in(after, value_set=before.combine_chunks())
    gone = pc.invert(pc.is_in(before, value_set=after.combine_chunks()))
    changed = ChangedIds(
        inserted=after.filter(pc.invert(kept)).combine_chunks(),
        updated=after.filter(kept).combine_chunks(),
        deleted=before.filter(gone).combine_chunks(),
    )
    return StagedTable(pin, stage_overwrite(store, pin.at, rows), changed)


def _stage_reshape(
    store: Store, pin: TablePin, effect: ReshapeTable, may_exist: MayExist
) -> StagedTable:
    """The rows stay, so the content is the same unless values were written or rows edited."""
    if effect.changes_values:
        _require_unmoved(pin, effect)
    write = stage_columns(store, pin.at, effect.columns, effect.written)
    changed = EveryRow(pin.row_count) if effect.changes_values and pin.row_count else None
    if effect.edit is None:
        return StagedTable(pin, write, changed)
    preview = preview_columns(store, pin.at, effect.columns)
    try:
        edited = stage(store, replace(pin, version=preview.version), effect.edit, may_exist)
    finally:
        drop_preview(store, preview)
    if edited is None:
        return StagedTable(pin, write, changed)
    return StagedTable(pin, stage_then(write, edited.write), edited.changed)


def _stage_compaction(store: Store, pin: TablePin, effect: AdoptCompaction) -> StagedTable:
    _require_unmoved(pin, effect)
    return StagedTable(pin, stage_compaction(store, pin.at, effect.results), None)


def _stage_indexes(store: Store, pin: TablePin, effect: AdoptIndexes) -> StagedTable | None:
    _require_unmoved(pin, effect)
    return _if_any(pin, stage_indexes(store, pin.at, effect.built))


def _if_any(pin: TablePin, staged: StagedWrite | None) -> StagedTable | None:
    return StagedTable(pin, staged, None) if staged else None


def _require_unmoved(pin: TablePin, effect: PhysicalEffect | ReshapeTable) -> None:
    if (pin.location, pin.branch, pin.version) != (effect.location, effect.branch, effect.version):
        raise ExpectedVersionMismatch(
            f"{pin.key} moved while it was compacted, indexed or rewritten",
            table=str(pin.key),
            expected=effect.version,
            actual=pin.version,
        )


def _stage_adoption(store: Store, pin: TablePin, effect: AdoptRows) -> StagedTable | None:
    if (pin.location, pin.branch) != (effect.location, effect.branch):
        # Files of one physical branch cannot be read through another, so they are written again.
        raise ExpectedVersionMismatch(
            f"{pin.key} moved to another place while its rows were written; repeat the write",
            table=str(pin.key),
            expected=f"{effect.location}@{effect.branch or 'main'}",
            actual=f"{pin.location}@{pin.branch or 'main'}",
        )
    if effect.changes.total == 0:
        return None
    known = effect.replaced
    if known is not None and known.version == pin.version:
        gone = list(known.addresses)
    else:
        gone = addresses_of(store, pin.at, effect.changes.batches(Op.UPDATE, Op.DELETE))
    write = stage_adoption(store, pin.at, effect.fragments, gone)
    return StagedTable(pin, write, effect.changes)


@dataclass(frozen=True, slots=True)
class _SplitUpserts:
    """Upserts of existing rows and of new ones."""

    replaced: pa.Table | None = None
    """Stored rows that change."""
    rewrites: pa.Table | None = None
    """Their new content, in the same order."""
    additions: pa.Table | None = None


def _split_upserts(stored: pa.Table | None, upserts: pa.Table | None) -> _SplitUpserts:
    if upserts is None or stored is None:
        return _SplitUpserts(additions=upserts)
    if stored.column("id").equals(upserts.column("id")):
        return _that_differ(stored, upserts, None)
    position = pc.index_in(upserts.column("id"), value_set=stored.column("id").combine_chunks())
    exists = position.is_valid()
    additions = upserts.filter(pc.invert(exists))
    return _that_differ(stored.take(position.drop_null()), upserts.filter(exists), additions)


def _that_differ(stored: pa.Table, rewrites: pa.Table, additions: pa.Table | None) -> _SplitUpserts:
    """An upsert with the stored values changes nothing."""
    mask = differing_rows(stored, rewrites)
    if mask.all():
        return _SplitUpserts(stored, rewrites, additions)
    differs = pa.array(mask)
    return _SplitUpserts(stored.filter(differs), rewrites.filter(differs), additions)


def _refuse_existing(pin: TablePin, inserts: pa.Table, stored: pa.Table) -> None:
    taken = inserts.column("id").filter(
        pc.is_in(inserts.column("id"), value_set=stored.column("id").combine_chunks())
    )
    if len(taken) == 0:
        return
    ids = taken.slice(0, _NAMED_IDS).to_pylist()
    more = f" and {len(taken) - len(ids)} more" if len(taken) > len(ids) else ""
    raise KeyConflict(
        f"{pin.key}: {', '.join(map(repr, ids))}{more} exist already; use upsert to replace them",
        type=pin.key.type_name,
        entity_kind=pin.key.kind.value,
        ids=ids,
        total=len(taken),
    )


def _all_ids(edit: EditRows) -> pa.Array:
    parts = [t.column("id").combine_chunks() for t in (edit.inserts, edit.upserts) if t is not None]
    if edit.deletes is not None:
        parts.append(edit.deletes)
    return pa.concat_arrays(parts)


def _unlocated(edit: EditRows) -> pa.Array:
    """Ids that must be looked up: the edit neither located their rows nor made them new."""
    ids, located = _all_ids(edit), edit.located
    known = [_ids([t]) for t in (located.upserted, located.deleted) if t is not None]
    known += [located.absent] if located.absent is not None else []
    if not known:
        return ids
    if len(known) == 1 and known[0].equals(ids):
        return ids.slice(0, 0)
    return ids.filter(pc.invert(pc.is_in(ids, value_set=pa.concat_arrays(known))))


def _joined(found: pa.Table, located: pa.Table | None) -> pa.Table:
    if located is None:
        return found
    # The two schemas may differ in which columns are nullable.
    return pa.concat_tables([found, located.select(found.column_names)], promote_options="default")


def _ids(tables: list[pa.Table]) -> pa.Array:
    columns = [chunk for t in tables for chunk in t.column("id").chunks]
    return pa.concat_arrays(columns) if columns else pa.array([], pa.string())


class KnownIds:
    """Ids that tables may hold, kept in memory, so that inserting new ids needs no lookup.

    Only absence is trusted: an id that is not in the set is not in the table. A deleted id stays in
    the set and costs a lookup when it is inserted again. A set belongs to a content epoch, so
    branches that share the rows of a table share its set, and compaction does not invalidate it.
    The memory is bounded: the sets that were used longest ago are dropped.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: BoundedCache[_TableContent, set[str]] = BoundedCache(
            _MOST_TABLES, _LARGEST_TOTAL
        )
        self._lookups: BoundedCache[str, int] = BoundedCache(_MOST_TABLES)

    def may_exist(
        self,
        pin: TablePin,
        ids: pa.Array,
        recent: Sequence[StoredCommit],
        scan: Callable[[], Iterable[str]],
    ) -> pa.Array:
        """The ids that the table may hold.

        Calls `scan` for all ids of the table after so many lookups that they took as long as the
        scan will take. So a set that is dropped and read again costs at most the lookups twice.
        """
        if pin.row_count == 0 or len(ids) == 0:
            return ids.slice(0, 0)
        known = self._known(pin, recent)
        if known is None:
            lookups = (self._lookups.get(pin.location) or 0) + 1
            self._lookups.put(pin.location, lookups)
            patient = lookups <= max(_LOOKUPS_BEFORE_SCAN, pin.row_count // _ROWS_PER_LOOKUP)
            if patient or pin.row_count > _LARGEST_TABLE:
                return ids
            known = set(scan())
            self._lookups.pop(pin.location)
            self._keep((pin.location, pin.content_epoch), known)
        with self._lock:
            return pa.array([i for i in ids.to_pylist() if i in known], pa.string())

    def among(self, store: Store, recent: Sequence[StoredCommit]) -> MayExist:
        """`may_exist` for tables of a branch whose last commits are `recent`."""

        def may_exist(pin: TablePin, ids: pa.Array) -> pa.Array:
            return self.may_exist(pin, ids, recent, lambda: read_ids(store.open(pin.at)))

        return may_exist

    def committed(self, before: TablePin, after: TablePin, inserted: pa.Array) -> None:
        """Carry the set of a table over to the content that a commit of this process made."""
        with self._lock:
            known = self._ids.pop((before.location, before.content_epoch))
            if known is not None:
                known.update(inserted.to_pylist())
        if known is not None:
            self._keep((after.location, after.content_epoch), known)

    def _known(self, pin: TablePin, recent: Sequence[StoredCommit]) -> set[str] | None:
        wanted = (pin.location, pin.content_epoch)
        known = self._ids.get(wanted)
        return known if known is not None else self._catch_up(wanted, pin, recent)

    def _catch_up(
        self, wanted: _TableContent, pin: TablePin, recent: Sequence[StoredCommit]
    ) -> set[str] | None:
        """Bring a set up to date with the ids that commits of other processes inserted."""
        added: list[str] = []
        for stored in reversed(recent):
            base = (pin.location, stored.commit_id)
            with self._lock:
                known = self._ids.pop(base)
                if known is not None:
                    known.update(added)
            if known is not None:
                self._keep(wanted, known)
                return known
            inserted = _inserted(stored, pin.location)
            if inserted is None:
                return None
            added += inserted
        return None

    def _keep(self, name: _TableContent, known: set[str]) -> None:
        self._ids.put(name, known, len(known))


def _inserted(stored: StoredCommit, location: str) -> tuple[str, ...] | None:
    """Ids that a commit added to the table at `location`; None when the commit row lists none."""
    moved = [p for p in stored.commit.pins if p.after is not None and p.after.location == location]
    if not moved:
        return ()
    names = {p.after.key for p in moved if p.after is not None}
    listed = [c.ids for c in stored.commit.changes if c.key in names]
    if len(listed) != 1 or listed[0] is None:
        return None
    return listed[0][0]

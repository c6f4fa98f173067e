"""Compact tables and build their indexes, through the one write path; no answer changes.

`Upkeep` looks after the tables of branches; `optimize_table` and `index_table` after one table.
`TableWork` is the part that takes long: rewriting files and building indexes, in this process or
on Spark. `look_after` does it for one table, if the table needs it (`look_at`, `is_due`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from omnigraph.catalog.index_plan import wanted_indexes
from omnigraph.catalog.model import ID, EntityType
from omnigraph.commit.intents import IntentKind
from omnigraph.commit.request import Build, WriteRequest
from omnigraph.commit.transaction import Transaction
from omnigraph.errors import ExpectedVersionMismatch, NotFound
from omnigraph.lance_store.reads.indexes import coverage
from omnigraph.lance_store.reads.scan import TableShape, table_shape
from omnigraph.lance_store.staging.compaction import plan_compaction, run_compaction
from omnigraph.lance_store.staging.index_builds import build_indexes, inherits_indexes, plan_indexes
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import TablePin
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.progress import tell
from omnigraph.settings.models import MaintenanceSettings
from omnigraph.values.identifiers import MAIN, TableKey
from omnigraph.values.indexes import BuiltIndex, IndexBuild
from omnigraph.writes.changeset import (
    AdoptCompaction,
    AdoptIndexes,
    ChangeSet,
    LeaveInheritedIndexes,
)

_FEWEST_DELETED = 1000


_INDEX_ATTEMPTS = 5

ACTOR = "omnigraph:upkeep"
"""Who looks after tables without being asked."""
# A compaction that does not queue loses when a writer deletes rows of its fragments first. After
# this many lost attempts it waits in the queue like a write; it rewrites only fragments below
# `compacted_rows`, so that other writers do not wait long.
_PATIENT_ATTEMPTS = 2
# A smaller table queues at once, because rewriting all of it takes no longer than a few commits.
_QUICK_BYTES = 4 * 1024 * 1024


class TableWork(Protocol):
    """Writes files that no version of a table names yet; a commit adopts them or drops them."""

    def compact(self, store: Store, at: DatasetVersion, tasks: tuple[str, ...]) -> tuple[str, ...]:
        """`run_compaction` of each task."""

    def index(
        self, store: Store, at: DatasetVersion, builds: tuple[IndexBuild, ...]
    ) -> tuple[BuiltIndex, ...]:
        """`build_segment` of each build, or of the parts of it."""


class LocalWork:
    """Upkeep in this process."""

    def compact(self, store: Store, at: DatasetVersion, tasks: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(run_compaction(store, at, task) for task in tasks)

    def index(
        self, store: Store, at: DatasetVersion, builds: tuple[IndexBuild, ...]
    ) -> tuple[BuiltIndex, ...]:
        return build_indexes(store, at, builds)


HERE = LocalWork()


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Upkeep of the tables of branches, as one actor.

    A writer that changes the rows of a fragment at the same time as it is compacted wins. The
    methods return the names of the types that were left undone because of that.
    """

    reader: ManifestReader
    transaction: Transaction
    actor: str | None
    work: TableWork = HERE

    def optimize(self, branch: str | None, types: Sequence[str] | None) -> list[str]:
        """Compact and index one branch; None is all branches, with names as `branch: type`."""
        if branch is not None:
            return self._optimize_branch(branch, types)
        behind = []
        known = False
        for name in self.reader.branch_refs.names():
            try:
                wanted = None if types is None else self._owned(name, types)
                known = known or types is None or wanted is not None
                if types is None or wanted:
                    behind += [f"{name}: {t}" for t in self._optimize_branch(name, wanted)]
            except NotFound:
                continue  # the branch was deleted after its name was listed
        if types is not None and not known:
            self._tables(MAIN, types)  # raises NotFound with the name of the unknown type
        return behind

    def ensure_indices(self, branch: str, types: Sequence[str] | None) -> list[str]:
        behind = []
        pace = Pace(work=self.work)
        for key in self._tables(branch, types):
            attempts = (
                index_table(self.transaction, branch, key, self.actor, pace)
                for _ in range(_INDEX_ATTEMPTS)
            )
            if not any(attempts):
                behind.append(key.type_name)
        return behind

    def _optimize_branch(self, branch: str, types: Sequence[str] | None) -> list[str]:
        pace = Pace(work=self.work)
        behind = []
        for key in self._tables(branch, types):
            tell(f"optimizing {key.type_name} on {branch}")
            if not optimize_table(self.transaction, branch, key, self.actor, pace):
                behind.append(key.type_name)
        return behind

    def _tables(self, branch: str, types: Sequence[str] | None) -> list[TableKey]:
        """The tables of these types; None is every table that the branch owns.

        Tables that a branch shares are left out, because upkeep of one would fork it.
        """
        ref, state = self.reader.branch(branch)
        if types is None:
            return [key for key, pin in state.tables.items() if pin.owner == ref.incarnation]
        catalog = self.reader.snapshot(ref, state).catalog
        return [catalog.resolve(name).table_key for name in types]

    def _owned(self, branch: str, types: Sequence[str]) -> list[str] | None:
        """Those of `types` whose table the branch owns; None when it knows none of them."""
        named = []
        for name in types:
            try:
                named += self._tables(branch, [name])
            except NotFound:
                continue  # only the schema of another branch has it
        owned = set(self._tables(branch, None))
        return [key.type_name for key in named if key in owned] if named else None


@dataclass(frozen=True, slots=True)
class Pace:
    """How thorough upkeep is, where the work is done, and whether writers wait for it."""

    rows_per_fragment: int | None = None
    """Fragments of more rows are left alone; None merges all that can be merged."""
    in_turn: bool = False
    """Wait in the queue of this host like a write; other writers then wait for a compaction."""
    work: TableWork = HERE


THOROUGH = Pace()


def optimize_table(
    transaction: Transaction,
    branch: str,
    key: TableKey,
    actor_id: str | None,
    pace: Pace = THOROUGH,
) -> bool:
    """Extend the indexes, then compact; False when another writer changed the fragments first.

    Indexes come first, because Lance does not compact fragments of different index coverage
    together. They come again at the end, because on a branch the first compaction has to drop the
    inherited ones.
    """
    request = _request("optimize", branch, key, actor_id, pace)
    store = transaction.store

    def make_way(snapshot: Snapshot) -> ChangeSet:
        at = snapshot.pin(key).at
        if inherits_indexes(store, at) and plan_compaction(store, at, pace.rows_per_fragment):
            return ChangeSet((LeaveInheritedIndexes(key, at.location, at.branch, at.version),))
        return ChangeSet(())

    def compact(snapshot: Snapshot) -> ChangeSet:
        at = snapshot.pin(key).at
        tasks = plan_compaction(store, at, pace.rows_per_fragment)
        if not tasks:
            return ChangeSet(())
        results = pace.work.compact(store, at, tasks)
        return ChangeSet((AdoptCompaction(key, at.location, at.branch, at.version, results),))

    return (
        index_table(transaction, branch, key, actor_id, pace)
        and _run(transaction, request, make_way)
        and _run(transaction, request, compact)
        and index_table(transaction, branch, key, actor_id, pace)
    )


def index_table(
    transaction: Transaction,
    branch: str,
    key: TableKey,
    actor_id: str | None,
    pace: Pace = THOROUGH,
    columns: Collection[str] | None = None,
) -> bool:
    """Build the declared indexes that are missing; False when their fragments were changed first.

    With `columns`, only the indexes of these. Writers never wait for a build, because one over all
    rows of a large table takes seconds.
    """
    store = transaction.store

    def build(snapshot: Snapshot) -> ChangeSet:
        at = snapshot.pin(key).at
        wanted = wanted_indexes(snapshot.catalog.entity_type(key))
        if columns is not None:
            wanted = tuple(spec for spec in wanted if spec.column in columns)
        builds = plan_indexes(store, at, wanted)
        if not builds:
            return ChangeSet(())
        built = pace.work.index(store, at, builds)
        return ChangeSet((AdoptIndexes(key, at.location, at.branch, at.version, built),))

    beside_writers = replace(pace, in_turn=False)
    return _run(transaction, _request("index", branch, key, actor_id, beside_writers), build)


def _request(
    operation: str, branch: str, key: TableKey, actor_id: str | None, pace: Pace
) -> WriteRequest:
    return WriteRequest(
        branch=branch,
        operation=operation,
        tables=(key,),
        kind=IntentKind.MAINTENANCE,
        actor_id=actor_id,
        repreparable=False,
        long_build=not pace.in_turn,
    )


def _run(transaction: Transaction, request: WriteRequest, build: Build) -> bool:
    try:
        transaction.run(request, build)
    except ExpectedVersionMismatch:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a table; `unindexed_rows` are those outside the index that covers fewest."""

    shape: TableShape
    indexes: int
    unindexed_rows: int


def look_at(
    store: Store, pin: TablePin, entity: EntityType, settings: MaintenanceSettings
) -> Layout:
    dataset = store.open(pin.at)
    wanted = coverage(dataset, wanted_indexes(entity))
    return Layout(
        table_shape(dataset, settings.compacted_rows),
        sum(c.built for c in wanted),
        max((c.pending_rows for c in wanted if c.built), default=0),
    )


def is_due(layout: Layout, settings: MaintenanceSettings) -> bool:
    shape = layout.shape
    much_deleted = shape.deleted_rows > max(
        _FEWEST_DELETED, shape.stored_rows * settings.deleted_share
    )
    return (
        shape.small_fragments >= settings.fragments
        or much_deleted
        or layout.unindexed_rows >= settings.unindexed_rows
    )


def look_after(
    transaction: Transaction,
    reader: ManifestReader,
    settings: MaintenanceSettings,
    table: tuple[str, TableKey],
    *,
    whole: bool,
    work: TableWork = HERE,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Upkeep of one table of a branch, if it is due; without `whole`, of its index of ids alone.

    The index of ids comes first, because without it each write of a keyed row scans the column.
    """
    branch, key = table
    ref, state = reader.branch(branch)
    pin = state.tables.get(key)
    if pin is None or pin.owner != ref.incarnation:
        return
    entity = reader.snapshot(ref, state).catalog.entity_type(key)
    layout = look_at(reader.store, pin, entity, settings)
    if not is_due(layout, settings):
        return
    if layout.unindexed_rows >= settings.unindexed_rows:
        pace = Pace(settings.compacted_rows, work=work)
        for _ in range(_INDEX_ATTEMPTS):
            if index_table(transaction, branch, key, ACTOR, pace, columns=(ID,)) or stopped():
                break
    if not whole:
        return
    patience = _PATIENT_ATTEMPTS if layout.shape.stored_bytes > _QUICK_BYTES else 0
    for attempt in range(patience + 1):
        pace = Pace(settings.compacted_rows, in_turn=attempt == patience, work=work)
        if stopped() or optimize_table(transaction, branch, key, ACTOR, pace):
            return

"""Physical upkeep of single tables through the one write path; no answer changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from omnigraph.catalog.index_plan import wanted_indexes
from omnigraph.catalog.model import EntityType
from omnigraph.commit.intents import IntentKind
from omnigraph.commit.request import Build, WriteRequest
from omnigraph.commit.transaction import Transaction
from omnigraph.errors import ExpectedVersionMismatch
from omnigraph.lance_store.reads.scan import TableShape, table_shape
from omnigraph.lance_store.search.indexes import coverage
from omnigraph.lance_store.staging.compaction import plan_compaction, run_compaction
from omnigraph.lance_store.staging.index_builds import build_indexes, inherits_indexes, plan_indexes
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.manifest.records import TablePin
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.settings.models import MaintenanceSettings
from omnigraph.values.identifiers import TableKey
from omnigraph.values.indexes import BuiltIndex, IndexBuild
from omnigraph.writes.changeset import (
    AdoptCompaction,
    AdoptIndexes,
    ChangeSet,
    LeaveInheritedIndexes,
)


class TableWork(Protocol):
    """Makes files that belong to nobody yet; what becomes of them is decided by a commit."""

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


_FEWEST_DELETED = 1000


@dataclass(frozen=True, slots=True)
class Layout:
    """`unindexed_rows` are those outside the index that lags most."""

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


@dataclass(frozen=True, slots=True)
class Pace:
    """How thoroughly, who does the work, and whether writers of this host wait meanwhile."""

    rows_per_fragment: int | None = None
    """Larger fragments are left alone; None: all that can be merged are."""
    in_turn: bool = False
    """Queue up like a write: nobody gets in between, for as long as it takes."""
    work: TableWork = HERE


THOROUGH = Pace()


def optimize_table(
    transaction: Transaction,
    branch: str,
    key: TableKey,
    actor_id: str | None,
    pace: Pace = THOROUGH,
) -> bool:
    """Extend the indexes, then compact; False when a writer got in between and won.

    Indexes first: Lance does not compact fragments of different index coverage together. And once
    more afterwards: on a branch the first compaction needs the inherited ones out of its way.
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
) -> bool:
    """Build what the schema declares and is not there yet; False as above."""
    store = transaction.store

    def build(snapshot: Snapshot) -> ChangeSet:
        at = snapshot.pin(key).at
        builds = plan_indexes(store, at, wanted_indexes(snapshot.catalog.entity_type(key)))
        if not builds:
            return ChangeSet(())
        built = pace.work.index(store, at, builds)
        return ChangeSet((AdoptIndexes(key, at.location, at.branch, at.version, built),))

    return _run(transaction, _request("index", branch, key, actor_id, pace), build)


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

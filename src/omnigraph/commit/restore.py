"""A living writer that cannot go on undoes its own advances before it lets go of its intent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from omnigraph import failpoints
from omnigraph.commit.arming import Arming
from omnigraph.commit.intents import Intent, IntentKind, branch_resource, table_resource
from omnigraph.commit.staging import StagedTable
from omnigraph.errors import NotFound
from omnigraph.lance_store.advance import HeadMoved, restore, tag_version
from omnigraph.lance_store.store import DatasetVersion, Store, head_version
from omnigraph.manifest.branch_state import BranchState
from omnigraph.manifest.publication import Publication, TableMove
from omnigraph.manifest.publisher import Publisher
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import BranchRef, TablePin
from omnigraph.settings.models import WriteSettings
from omnigraph.values.clock import Clock
from omnigraph.values.identifiers import TableKey


class LiveRollback:
    """Restores pinned rows on top and publishes where they are now; no commit, no audit row.

    Any failure here leaves the intent on the board, and recovery does the same work again.
    """

    def __init__(self, reader: ManifestReader, publisher: Publisher) -> None:
        self._reader = reader
        self._store: Store = reader.store
        self._publisher = publisher

    def undo(self, intent: Intent, advanced: Sequence[StagedTable]) -> None:
        self._restore_pins(intent, [staged.pin for staged in advanced])

    def undo_orphan(
        self,
        intent: Intent,
        moved: HeadMoved,
        staged: StagedTable,
        advanced: Sequence[StagedTable],
    ) -> None:
        """Also push an unpublished HEAD of `staged`'s table aside, tagged for whoever asks."""
        version = moved.head - (staged.write.steps if moved.landed_on_top else 0)
        orphan = DatasetVersion(moved.at.location, moved.at.branch, version)
        tag_version(self._store, orphan, f"orphan-{intent.intent_id}")
        self._restore_pins(intent, [*(s.pin for s in advanced), staged.pin])

    def _restore_pins(self, intent: Intent, pins: Sequence[TablePin]) -> None:
        if not pins:
            return
        moves = tuple(
            TableMove(pin, pin.moved_to(restore(self._store, pin.at).version)) for pin in pins
        )
        failpoints.hit("commit.rollback_restored")
        state = self._reader.state(intent.branch)
        publication = Publication(intent.intent_id, state.version, moves=moves)
        self._publisher.publish(intent.branch, publication)
        failpoints.hit("commit.rollback_published")


@dataclass(frozen=True, slots=True)
class DriftedTable:
    """One table whose HEAD is not what the manifest shows."""

    branch: str
    table: str
    dataset: str
    pinned_version: int
    head_version: int
    pinned_rows: int
    head_rows: int


def drifted_tables(store: Store, ref: BranchRef, state: BranchState) -> Iterator[DriftedTable]:
    """Tables this branch owns; one whose HEAD is behind is damage that `verify` reports."""
    for key, pin in state.tables.items():
        if pin.owner != ref.incarnation:
            continue
        try:
            head = head_version(store.open(pin.at))
        except NotFound:
            continue
        if head > pin.version:
            rows = store.open(DatasetVersion(pin.location, pin.branch, head)).count_rows()
            place = store.dataset_uri(pin.location, pin.branch)
            yield DriftedTable(
                ref.name, str(key), place, pin.version, head, pin.row_count, int(rows)
            )


@dataclass(frozen=True, slots=True)
class PushAside:
    """Tags the unexplained HEAD and puts the pinned rows back on top, as a writer would."""

    reader: ManifestReader
    publisher: Publisher
    arming: Arming
    settings: WriteSettings
    clock: Clock

    def push_aside(self, drifted: DriftedTable, actor_id: str | None) -> None:
        ref, _ = self.reader.branch(drifted.branch)
        key = TableKey.parse(drifted.table)
        intent_id = self.clock.new_ulid()
        posted = self.arming.arm(
            Intent(
                intent_id=intent_id,
                operation_id=intent_id,
                kind=IntentKind.MAINTENANCE,
                branch=ref,
                exclusive=frozenset({table_resource(ref, key)}),
                shared=frozenset({branch_resource(ref)}),
                lease_seconds=self.settings.lease_seconds,
                actor_id=actor_id,
                publication=self._publication(ref, key, intent_id),
            )
        )
        try:
            self._restore(ref, key, posted.intent.intent_id)
        finally:
            self.arming.withdraw(posted)

    def _publication(self, ref: BranchRef, key: TableKey, intent_id: str) -> Publication:
        """Whoever finds the intent restores this pin: the same work again."""
        state = self.reader.state(ref)
        pin = state.tables[key]
        return Publication(intent_id, state.version, moves=(TableMove(pin, pin),))

    def _restore(self, ref: BranchRef, key: TableKey, intent_id: str) -> None:
        store = self.reader.store
        state = self.reader.state(ref)
        pin = state.tables[key]
        head = head_version(store.open(pin.at))
        if head <= pin.version:
            return  # a writer was faster
        tag_version(store, DatasetVersion(pin.location, pin.branch, head), f"orphan-{intent_id}")
        restored = restore(store, pin.at)
        move = TableMove(pin, pin.moved_to(restored.version))
        self.publisher.publish(ref, Publication(intent_id, state.version, moves=(move,)))

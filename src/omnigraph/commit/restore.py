"""The one undo: write the pinned rows of a table back on top of its HEAD.

A HEAD above its pin holds rows that no publication made visible. Undo does not remove them: it
writes the pinned version again as the newest one, and a publication moves the pin there. Every
transaction that was staged before then fails, so a writer that was stopped in between cannot add
to the table.

Three callers use it. A live writer undoes its own advances (`commit.transaction`), recovery undoes
those of a dead writer (`commit.recovery.act`), and `DriftRepair` undoes a HEAD that no intent
explains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from omnigraph import failpoints
from omnigraph.commit.arming import Arming
from omnigraph.commit.intents import (
    Intent,
    IntentKind,
    Resources,
    branch_resource,
    table_resource,
)
from omnigraph.errors import NotFound
from omnigraph.lance_store.advance import restore, tag_version
from omnigraph.lance_store.store import DatasetVersion, Store, head_version
from omnigraph.manifest.branch_state import BranchState
from omnigraph.manifest.publication import Publication, TableMove
from omnigraph.manifest.publisher import Publisher
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import BranchRef, TablePin
from omnigraph.settings.models import WriteSettings
from omnigraph.values.clock import Clock
from omnigraph.values.identifiers import TableKey


def restore_pin(store: Store, pin: TablePin) -> TableMove:
    """Write the pinned rows on top of HEAD. The caller publishes the move that is returned."""
    return TableMove(pin, pin.moved_to(restore(store, pin.at).version))


def tag_orphan(store: Store, orphan: DatasetVersion, intent: Intent) -> None:
    """Keep an unpublished version readable, under a tag that names the intent that found it."""
    tag_version(store, orphan, f"orphan-{intent.intent_id}")


def undo_to_pins(
    reader: ManifestReader, publisher: Publisher, intent: Intent, pins: Sequence[TablePin]
) -> None:
    """Restore the pins and publish where their rows are now: no commit and no audit row.

    A failure leaves the intent on the board, and recovery does the same work again.
    """
    if not pins:
        return
    moves = tuple(restore_pin(reader.store, pin) for pin in pins)
    failpoints.hit("commit.rollback_restored")
    state = reader.state(intent.branch)
    publisher.publish(intent.branch, Publication(intent.intent_id, state.version, moves=moves))
    failpoints.hit("commit.rollback_published")


@dataclass(frozen=True, slots=True)
class DriftedTable:
    """One table whose HEAD is not what the manifest shows."""

    graph_branch: str
    table: str
    dataset: str
    pinned_version: int
    head_version: int
    pinned_rows: int
    head_rows: int


def drifted_tables(store: Store, ref: BranchRef, state: BranchState) -> Iterator[DriftedTable]:
    """Tables of this branch whose HEAD is above the pin.

    A HEAD below its pin is damage, which `verify` reports.
    """
    for key, pin in state.tables.items():
        if pin.owner != ref.incarnation:
            continue
        try:
            head = head_version(store.open(pin.at))
        except NotFound:
            continue
        if head > pin.version:
            rows = store.open(DatasetVersion(pin.location, pin.branch, head)).count_rows()
            yield DriftedTable(
                graph_branch=ref.name,
                table=str(key),
                dataset=store.dataset_uri(pin.location, pin.branch),
                pinned_version=pin.version,
                head_version=head,
                pinned_rows=pin.row_count,
                head_rows=int(rows),
            )


@dataclass(frozen=True, slots=True)
class DriftRepair:
    """Tags a HEAD that no intent explains and undoes it, under an intent as any writer."""

    reader: ManifestReader
    publisher: Publisher
    arming: Arming
    settings: WriteSettings
    clock: Clock

    def push_aside(self, drifted: DriftedTable, actor_id: str | None) -> None:
        ref, _ = self.reader.branch(drifted.graph_branch)
        key = TableKey.parse(drifted.table)
        intent_id = self.clock.new_ulid()
        posted = self.arming.arm(
            Intent(
                intent_id=intent_id,
                operation_id=intent_id,
                kind=IntentKind.MAINTENANCE,
                branch=ref,
                resources=Resources(
                    exclusive=frozenset({table_resource(ref, key)}),
                    shared=frozenset({branch_resource(ref)}),
                ),
                lease_seconds=self.settings.lease_seconds,
                actor_id=actor_id,
                publication=self._publication(ref, key, intent_id),
            )
        )
        try:
            self._undo(posted.intent, key)
        finally:
            self.arming.withdraw(posted)

    def _publication(self, ref: BranchRef, key: TableKey, intent_id: str) -> Publication:
        """A move from the pin to itself.

        A repair that is killed therefore changes nothing that readers see: recovery finds the pin
        in its place and drops the intent, and the drift waits for the next writer or repair.
        """
        state = self.reader.state(ref)
        pin = state.tables[key]
        return Publication(intent_id, state.version, moves=(TableMove(pin, pin),))

    def _undo(self, intent: Intent, key: TableKey) -> None:
        store = self.reader.store
        pin = self.reader.state(intent.branch).tables[key]
        head = head_version(store.open(pin.at))
        if head <= pin.version:
            return  # another writer pushed it aside before this intent was armed
        tag_orphan(store, DatasetVersion(pin.location, pin.branch, head), intent)
        undo_to_pins(self.reader, self.publisher, intent, [pin])

"""A HEAD above its pin that no intent explains: find it, and push it aside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.commit.arming import Arming
from omnigraph.commit.intents import Intent, IntentKind, branch_resource, table_resource
from omnigraph.errors import NotFound
from omnigraph.lance_store.advance import restore, tag_version
from omnigraph.lance_store.store import DatasetVersion, Store, head_version
from omnigraph.manifest.branch_state import BranchState
from omnigraph.manifest.publication import Publication, TableMove
from omnigraph.manifest.publisher import Publisher
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import BranchRef
from omnigraph.settings.models import WriteSettings
from omnigraph.values.clock import Clock
from omnigraph.values.identifiers import TableKey


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

"""Repair what recovery cannot: a HEAD above its pin, an unreadable intent, a moved graph, names.

A HEAD above its pin (drift) means that another program wrote to the table. Writers that meet drift
push it aside; `repair` shows it first and does the same without a write of the user.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.commit.intents import IntentBoard, IntentKind, PendingIntent
from omnigraph.commit.recovery.sweep import Recovery
from omnigraph.commit.request import WriteRequest
from omnigraph.commit.restore import DriftedTable, DriftRepair, drifted_tables
from omnigraph.commit.transaction import Transaction
from omnigraph.errors import CorruptIntent, NotFound, RecoveryRequired, SchemaDrift
from omnigraph.lance_store.objects.relocation import lineages_elsewhere, relocate
from omnigraph.lance_store.staging.columns import ColumnShape
from omnigraph.lance_store.store import Store
from omnigraph.manifest.layout import QUARANTINE, RECOVERY
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import TablePin
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.stored_columns import ColumnDifference, column_differences
from omnigraph.writes.changeset import ChangeSet, ReshapeTable


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What is wrong and, when `confirmed`, what was done about it."""

    confirmed: bool
    drift: tuple[DriftedTable, ...]
    pending: tuple[PendingIntent, ...]
    """Writers in flight; a confirmed repair refuses while there are any."""
    unreadable: tuple[str, ...]
    quarantined: tuple[str, ...]
    recovered: int
    moved_from: str | None = None
    """The old address of a moved graph, by which its branches still name the files they share."""
    columns: tuple[ColumnDifference, ...] = ()
    """Columns that are not those of the schema. Another name is put right; everything else needs
    the files of a backup."""

    @property
    def clean(self) -> bool:
        return not (self.drift or self.unreadable or self.moved_from or self.columns)

    def to_dict(self) -> dict[str, Any]:
        return {"clean": self.clean, **asdict(self)}


class Repair:
    """Previews and repairs one graph."""

    def __init__(
        self,
        reader: ManifestReader,
        board: IntentBoard,
        recovery: Recovery,
        push: DriftRepair,
        transaction: Transaction,
    ) -> None:
        self._reader = reader
        self._store: Store = reader.store
        self._board = board
        self._recovery = recovery
        self._push = push
        self._transaction = transaction

    def preview(self) -> RepairReport:
        """Report only; nothing is changed."""
        return self._report(confirmed=False)

    def run(self, actor_id: str | None, *, force: bool) -> RepairReport:
        """`force` moves unreadable intents aside; make sure first that their writers are dead.

        Raises `CorruptIntent` when there is one and `force` is not given, and `RecoveryRequired`
        while a writer is in flight.
        """
        found = self._report(confirmed=True)
        if found.unreadable and not force:
            raise CorruptIntent(
                f"{found.unreadable[0]} cannot be read, so it is not known what its writer did; "
                f"--force moves it to {QUARANTINE}/ and trusts the manifest",
                file=found.unreadable[0],
            )
        for name in found.unreadable:
            self._quarantine(name)
        if found.moved_from is not None:
            relocate(self._store.location, self._paths())
        recovered = self._recovery.sweep()
        alive = self._board.others()
        if alive:
            names = [seen.intent.intent_id for seen in alive]
            raise RecoveryRequired(
                f"writers are in flight ({', '.join(names)}): repeat when they have finished",
                intents=names,
            )
        drift = self._drift()
        for table in drift:
            self._push.push_aside(table, actor_id)
        columns = tuple(self._columns())
        for snapshot, pin in self._misnamed():
            self._name_columns(snapshot, pin, actor_id)
        unreadable = found.unreadable
        return RepairReport(
            True, drift, (), unreadable, unreadable, recovered, found.moved_from, columns
        )

    def _report(self, *, confirmed: bool) -> RepairReport:
        intents = self._board.pending()
        unreadable = tuple(
            f"{RECOVERY}/{intent.intent_id}.json" for intent in intents if not intent.is_readable
        )
        pending = tuple(intent for intent in intents if intent.is_readable)
        elsewhere = lineages_elsewhere(self._store.location, self._paths())
        moved_from = next(iter(elsewhere.values()), None)
        # Drift of a moved graph cannot be checked, because its branches do not find their files.
        drift = self._drift() if moved_from is None else ()
        columns = tuple(self._columns()) if moved_from is None else ()
        return RepairReport(confirmed, drift, pending, unreadable, (), 0, moved_from, columns)

    def _paths(self) -> list[str]:
        return [file.path for file in self._store.files.walk("")]

    def _drift(self) -> tuple[DriftedTable, ...]:
        return tuple(
            table
            for ref, state in self._reader.live_branches()
            for table in drifted_tables(self._store, ref, state)
        )

    def _columns(self) -> Iterator[ColumnDifference]:
        for snapshot, pin in self._tables():
            yield from column_differences(snapshot, pin, self._store.open(pin.at))

    def _tables(self) -> Iterator[tuple[Snapshot, TablePin]]:
        """Every table of every branch whose schema can be read."""
        for ref, state in self._reader.live_branches():
            try:
                snapshot = self._reader.snapshot(ref, state)
            except (NotFound, SchemaDrift):
                continue  # `verify` tells it
            for pin in snapshot.tables.values():
                try:
                    self._store.open(pin.at)
                except NotFound:
                    continue
                yield snapshot, pin

    def _misnamed(self) -> Iterator[tuple[Snapshot, TablePin]]:
        """Tables that have all columns of the schema, some of them under other names."""
        for snapshot, pin in self._tables():
            found = list(column_differences(snapshot, pin, self._store.open(pin.at)))
            if found and all(difference.is_safe for difference in found):
                yield snapshot, pin

    def _name_columns(self, snapshot: Snapshot, pin: TablePin, actor_id: str | None) -> None:
        """Name the columns of a table as the schema does; no value changes."""
        entity = snapshot.catalog.entity_type(pin.key)

        def build(now: Snapshot) -> ChangeSet:
            at = now.pin(pin.key)
            names = {
                difference.property_name: difference.column
                for difference in column_differences(now, at, self._store.open(at.at))
            }
            identities = {p.name: p.identity for p in entity.properties}
            shape = tuple(
                ColumnShape(
                    field, identities.get(field.name, ""), names.get(field.name, field.name)
                )
                for field in table_schema(entity)
            )
            effect = ReshapeTable(at.key, at.location, at.branch, at.version, shape)
            return ChangeSet((effect,))

        self._transaction.run(
            WriteRequest(
                branch=snapshot.graph_branch,
                operation="repair",
                tables=(pin.key,),
                kind=IntentKind.MAINTENANCE,
                actor_id=actor_id,
            ),
            build,
        )

    def _quarantine(self, key: str) -> None:
        """Copy the intent before it is deleted, because its bytes are evidence."""
        data = self._store.files.get(key)
        if data is not None:
            self._store.files.put(f"{QUARANTINE}/{key.rsplit('/', 1)[-1]}", data)
            self._store.files.delete(key)

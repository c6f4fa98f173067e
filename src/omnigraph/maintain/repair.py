"""Put right what no intent explains: a HEAD above its pin, and an intent nobody can read.

Writers that meet such drift push it aside by themselves; `repair` shows it first, and does the same
without a write of the user's.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from omnigraph.commit.drift import DriftedTable, PushAside, drifted_tables
from omnigraph.commit.intent_board import IntentBoard
from omnigraph.commit.recovery.sweep import Recovery
from omnigraph.errors import CorruptIntent, RecoveryRequired
from omnigraph.lance_store.store import Store
from omnigraph.maintain.status import PendingIntent, live, pending_intents
from omnigraph.manifest.layout import QUARANTINE, RECOVERY
from omnigraph.manifest.reader import ManifestReader


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What is wrong and, when `confirmed`, what was done about it."""

    confirmed: bool
    drift: tuple[DriftedTable, ...]
    pending: tuple[PendingIntent, ...]
    """Writers in flight; `repair` waits for none and refuses while there are any."""
    unreadable: tuple[str, ...]
    quarantined: tuple[str, ...]
    recovered: int

    @property
    def clean(self) -> bool:
        return not (self.drift or self.unreadable)

    def to_dict(self) -> dict[str, Any]:
        return {"clean": self.clean, **asdict(self)}


class Repair:
    """Previews and repairs one graph."""

    def __init__(
        self, reader: ManifestReader, board: IntentBoard, recovery: Recovery, push: PushAside
    ) -> None:
        self._reader = reader
        self._store: Store = reader.store
        self._board = board
        self._recovery = recovery
        self._push = push

    def preview(self) -> RepairReport:
        """Changes nothing."""
        return self._report(confirmed=False)

    def run(self, actor_id: str | None, *, force: bool) -> RepairReport:
        """`force` moves unreadable intents aside; their writers may still be alive, so look first.

        Raises `CorruptIntent` when there is one and `force` is not given, and `RecoveryRequired`
        while a writer is in flight.
        """
        found = self._report(confirmed=True)
        if found.unreadable and not force:
            raise CorruptIntent(
                f"{found.unreadable[0]} cannot be read, so what its writer did is not known. "
                "--force moves it to "
                f"{QUARANTINE}/ and takes the manifest as the truth",
                file=found.unreadable[0],
            )
        for name in found.unreadable:
            self._quarantine(name)
        recovered = self._recovery.sweep()
        alive = self._board.others()
        if alive:
            names = [seen.intent.intent_id for seen in alive]
            raise RecoveryRequired(
                f"writers are in flight ({', '.join(names)}): repeat when they are done",
                intents=names,
            )
        drift = self._drift()
        for table in drift:
            self._push.push_aside(table, actor_id)
        return RepairReport(True, drift, (), found.unreadable, found.unreadable, recovered)

    def _report(self, *, confirmed: bool) -> RepairReport:
        intents = pending_intents(self._store)
        unreadable = tuple(
            f"{RECOVERY}/{i.intent_id}.json" for i in intents if i.kind == "unreadable"
        )
        pending = tuple(i for i in intents if i.kind != "unreadable")
        return RepairReport(confirmed, self._drift(), pending, unreadable, (), 0)

    def _drift(self) -> tuple[DriftedTable, ...]:
        return tuple(
            table
            for ref, state in live(self._reader)
            for table in drifted_tables(self._store, ref, state)
        )

    def _quarantine(self, key: str) -> None:
        """Copied first: the bytes are evidence."""
        data = self._store.files.get(key)
        if data is not None:
            self._store.files.put(f"{QUARANTINE}/{key.rsplit('/', 1)[-1]}", data)
            self._store.files.delete(key)

"""A living writer that cannot go on undoes its own advances before it lets go of its intent."""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph import failpoints
from omnigraph.commit.intents import Intent
from omnigraph.commit.staging import StagedTable
from omnigraph.lance_store.advance import HeadMoved, restore, tag_version
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.manifest.publication import Publication, TableMove
from omnigraph.manifest.publisher import Publisher
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import TablePin


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

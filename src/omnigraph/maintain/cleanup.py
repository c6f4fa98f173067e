"""Remove what a graph no longer needs: old versions, files of dead writers, deleted branches.

A preview finds and reports; a run also removes. A run holds `gc` exclusively, so that no branch,
tag or long staging begins in between. Ordinary writes go on, because nothing younger than the
minimum age is touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph import failpoints
from omnigraph.commit.arming import Arming, IntentHold
from omnigraph.commit.intents import GC, IntentBoard, IntentKind, Resources, guard_intent
from omnigraph.commit.recovery.sweep import Recovery
from omnigraph.lance_store.dataset_files import lineages
from omnigraph.lance_store.objects.control_files import StoredFile
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.maintain.garbage import Cutoffs, Needed, Removal, Retention, find_garbage, needed_now
from omnigraph.manifest.layout import MANIFEST, reclaimed_marker
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import MAIN_REF
from omnigraph.settings.models import Settings
from omnigraph.values.clock import Clock

_BATCH = 500
_DAY_MICROS = 86_400_000_000

# What names a version is removed before the files of the version, so that a reader of an old
# snapshot finds it whole or not at all.
_ORDER = ("tag", "versions", "branch", "table", "orphans", "objects")


@dataclass(frozen=True, slots=True)
class CleanupReport:
    """What was removed, or would be removed when not `confirmed`."""

    confirmed: bool
    removals: tuple[Removal, ...]
    files: int
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        return {
            "confirmed": self.confirmed,
            "removals": [removal.to_dict() for removal in self.removals],
            "files": self.files,
            "bytes": self.bytes,
        }


class Cleanup:
    """Finds and removes the garbage of one graph."""

    def __init__(
        self,
        reader: ManifestReader,
        board: IntentBoard,
        arming: Arming,
        recovery: Recovery,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._reader = reader
        self._store: Store = reader.store
        self._board = board
        self._arming = arming
        self._recovery = recovery
        self._settings = settings
        self._clock = clock

    def preview(self, retention: Retention) -> CleanupReport:
        """Report only: nothing is written, and no writer has to wait."""
        return self._find(retention, confirmed=False)

    def run(self, retention: Retention, actor_id: str | None) -> CleanupReport:
        self._recovery.sweep()
        intent = guard_intent(
            IntentKind.HOLD,
            MAIN_REF,
            Resources(exclusive=frozenset({GC})),
            intent_id=self._clock.new_ulid(),
            lease_seconds=self._settings.write.lease_seconds,
            actor_id=actor_id,
        )
        with IntentHold(self._board, intent, self._arming.arm) as hold:
            self._drop_dead_names()
            report = self._find(retention, confirmed=True)
            failpoints.hit("cleanup.after_find")
            for removal in report.removals:
                self._remove(removal, hold)
                failpoints.hit("cleanup.after_removal")
        return report

    def _drop_dead_names(self) -> None:
        """Remove names that a delete or a rename left because it was killed in its last step.

        The name of a deleted branch must be gone before the state of its head is removed.
        """
        for name in self._reader.branch_refs.names():
            ref = self._reader.branch_refs.find(name)
            if ref is None:
                continue
            state = self._reader.state(ref)
            if state.deleted or self._reader.goes_by_another_name(ref, state):
                self._reader.branch_refs.remove(ref)

    def busy_locations(self) -> frozenset[str]:
        """Datasets whose HEAD a writer in flight may move."""
        needed = needed_now(
            self._reader, Retention(1, None), [s.intent for s in self._board.others()], (), 0
        )
        return frozenset(needed.busy)

    def _find(self, retention: Retention, *, confirmed: bool) -> CleanupReport:
        now = self._clock.now_micros()
        settings = self._settings.maintenance
        cutoffs = Cutoffs(
            files=now - int(settings.minimum_age_seconds * 1_000_000),
            tags=now - int(settings.orphan_tag_days * _DAY_MICROS),
        )
        # Listed before the roots are read, so that files of later writes are not in the list.
        files = self._store.files.walk("")
        needed = self._needed(retention, files, cutoffs, now)
        found = find_garbage(self._store, files, needed, cutoffs)
        ordered = sorted(found, key=lambda removal: _ORDER.index(removal.kind))
        return CleanupReport(
            confirmed=confirmed,
            removals=tuple(ordered),
            files=sum(len(removal.files) for removal in ordered),
            bytes=sum(removal.bytes for removal in ordered),
        )

    def _needed(
        self, retention: Retention, files: Sequence[StoredFile], cutoffs: Cutoffs, now: int
    ) -> Needed:
        intents = [seen.intent for seen in self._board.others()]
        young = _young_incarnations(files, cutoffs.files)
        named = {self._reader.branch_refs.find(n) for n in self._reader.branch_refs.names()}
        unnamed = young - {ref.incarnation for ref in named if ref is not None}
        return needed_now(self._reader, retention, intents, sorted(unnamed), now)

    def _remove(self, removal: Removal, hold: IntentHold) -> None:
        if removal.kind == "table":
            self._store.files.put(reclaimed_marker(removal.place), b"")
        for start in range(0, len(removal.files), _BATCH):
            hold.check()
            self._store.files.delete_many(removal.files[start : start + _BATCH])
        if removal.kind == "versions":
            for at in _versions(removal):
                self._store.forget(at)
        if removal.kind in ("branch", "table"):
            self._store.files.remove_empty_folders(removal.place)


def _young_incarnations(files: Iterable[StoredFile], cutoff: int) -> set[str]:
    """Physical branches of the manifest that changed after `cutoff`; a deletion is a change."""
    manifest = [file for file in files if file.path.startswith(f"{MANIFEST}/")]
    return {
        branch
        for branch, line in lineages(MANIFEST, manifest).items()
        if branch is not None and line.newest_change > cutoff
    }


def _versions(removal: Removal) -> list[DatasetVersion]:
    location, _, branch = removal.place.partition("/tree/")
    return [DatasetVersion(location, branch or None, version) for version in removal.versions]

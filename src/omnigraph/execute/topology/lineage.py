"""How the rows of a table came about: one commit back at a time, from what commits recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.errors import FormatUnknown, SnapshotReclaimed
from omnigraph.execute.topology.id_changes import IdChanges
from omnigraph.manifest.changed_ids import recorded_id_sets
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import TableChanges, TablePin
from omnigraph.values.bounded_cache import BoundedCache

_STEPS = 4096
_STEP_IDS = 200_000


@dataclass(frozen=True, slots=True)
class Step:
    """The state before one commit, and what the commit changed."""

    before: TablePin
    changes: IdChanges


class ContentLineage:
    """Commits of the branches this process has read, as far back as is worth following."""

    def __init__(self, reader: ManifestReader) -> None:
        self._reader = reader
        self._steps: BoundedCache[tuple[str, str], Step] = BoundedCache(_STEPS, _STEP_IDS)

    def step(self, pin: TablePin, most_ids: int) -> Step | None:
        """None when the commit is not at hand, does not say what it did to the rows, or did more.

        The ids of a commit that changed more than `most_ids` are not even read.
        """
        name = (pin.location, pin.content_epoch)
        known = self._steps.get(name)
        if known is not None:
            return known if known.changes.size <= most_ids else None
        try:
            found = self._find(pin, most_ids)
        except (SnapshotReclaimed, FormatUnknown):
            found = None  # only a shortcut: whoever needs that history says so
        if found is not None:
            self._steps.put(name, found, found.changes.size)
        return found

    def back(self, pin: TablePin, most_ids: int) -> Iterator[Step]:
        """Older states with everything that changed from each to `pin`, nearest first."""
        changed = IdChanges()
        while (step := self.step(pin, most_ids - changed.size)) is not None:
            changed = step.changes.then(changed)
            if changed.size > most_ids:
                return
            pin = step.before
            yield Step(pin, changed)

    def _find(self, pin: TablePin, most_ids: int) -> Step | None:
        commit = self._reader.recent_commit(pin.content_epoch, pin.owner)
        if commit is None:
            return None
        moved = [
            c
            for c in commit.pins
            if c.after is not None
            and c.after.location == pin.location
            and c.after.content_epoch == pin.content_epoch
        ]
        if len(moved) != 1 or moved[0].before is None or moved[0].after is None:
            return None
        before, after = moved[0].before, moved[0].after
        listed = [c for c in commit.changes if c.key == after.key]
        if len(listed) != 1 or before.location != pin.location:
            return None
        recorded = listed[0]
        if recorded.inserted + recorded.updated + recorded.deleted > most_ids:
            return None
        ids = recorded_id_sets(self._reader.store.files, recorded)
        if ids is None:
            return None
        changes = IdChanges(*ids)
        return Step(before, changes) if _adds_up(before, after, recorded, changes) else None


def _adds_up(before: TablePin, after: TablePin, recorded: TableChanges, changes: IdChanges) -> bool:
    """A record that does not explain the number of rows is not followed."""
    counts = (len(changes.inserted), len(changes.updated), len(changes.deleted))
    if counts != (recorded.inserted, recorded.updated, recorded.deleted):
        return False
    return before.row_count + counts[0] - counts[2] == after.row_count

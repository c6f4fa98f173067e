"""Which ids a table may hold, kept in memory, so that inserting new ones needs no lookup.

Only absence is trusted: an id that is not in the set is not in the table. Deleted ids stay in the
set and cost one lookup each. Content is named by its epoch, so branches that share a table's rows
share the knowledge, and compaction does not touch it.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from omnigraph.manifest.records import StoredCommit, TablePin

_LARGEST_TABLE = 200_000
_LARGEST_TOTAL = 1_000_000
_LOOKUPS_BEFORE_SCAN = 3

_Name = tuple[str, str]


class KnownIds:
    """Bounded; forgets the tables that were written longest ago."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: OrderedDict[_Name, set[str]] = OrderedDict()
        self._lookups: Counter[str] = Counter()

    def may_exist(
        self,
        pin: TablePin,
        ids: pa.Array,
        recent: Sequence[StoredCommit],
        scan: Callable[[], Iterable[str]],
    ) -> pa.Array:
        """The ids worth looking up. Scans a small table once it is written to repeatedly."""
        if pin.row_count == 0:
            return ids.slice(0, 0)
        known = self._known(pin, recent)
        if known is None:
            with self._lock:
                self._lookups[pin.location] += 1
                patient = self._lookups[pin.location] <= _LOOKUPS_BEFORE_SCAN
            if patient or pin.row_count > _LARGEST_TABLE:
                return ids
            known = set(scan())
            self._keep((pin.location, pin.content_epoch), known)
        with self._lock:
            return pa.array([i for i in ids.to_pylist() if i in known], pa.string())

    def committed(self, before: TablePin, after: TablePin, inserted: pa.Array) -> None:
        """Our own commit: carry the knowledge over to the new content."""
        with self._lock:
            known = self._ids.pop((before.location, before.content_epoch), None)
            if known is not None:
                known.update(inserted.to_pylist())
        if known is not None:
            self._keep((after.location, after.content_epoch), known)

    def _known(self, pin: TablePin, recent: Sequence[StoredCommit]) -> set[str] | None:
        wanted = (pin.location, pin.content_epoch)
        with self._lock:
            known = self._ids.get(wanted)
            if known is not None:
                self._ids.move_to_end(wanted)
                return known
        return self._catch_up(wanted, pin, recent)

    def _catch_up(
        self, wanted: _Name, pin: TablePin, recent: Sequence[StoredCommit]
    ) -> set[str] | None:
        """Others committed: their commits say which ids came in since the content we know."""
        added: list[str] = []
        for stored in reversed(recent):
            base = (pin.location, stored.commit_id)
            with self._lock:
                known = self._ids.get(base)
                if known is not None:
                    del self._ids[base]
                    known.update(added)
            if known is not None:
                self._keep(wanted, known)
                return known
            inserted = _inserted(stored, pin.location)
            if inserted is None:
                return None
            added += inserted
        return None

    def _keep(self, name: _Name, known: set[str]) -> None:
        with self._lock:
            self._ids[name] = known
            while len(self._ids) > 1 and sum(map(len, self._ids.values())) > _LARGEST_TOTAL:
                self._ids.popitem(last=False)


def _inserted(stored: StoredCommit, location: str) -> tuple[str, ...] | None:
    """Ids that a commit added to the table at `location`; None when it does not say."""
    moved = [p for p in stored.commit.pins if p.after is not None and p.after.location == location]
    if not moved:
        return ()
    names = {p.after.key for p in moved if p.after is not None}
    listed = [c.ids for c in stored.commit.changes if c.key in names]
    if len(listed) != 1 or listed[0] is None:
        return None
    return listed[0][0]

"""Two snapshots side by side: which tables differ, and which ids of them may."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.diff.entity_rows import TableAt, same_content, sort_key, tables_by_identity
from omnigraph.diff.id_runs import IdRuns, Scratch
from omnigraph.diff.recorded_ids import ids_between
from omnigraph.lance_store.reads.scan import id_batches
from omnigraph.lance_store.store import Store
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import TableKey


@dataclass(frozen=True, slots=True)
class TablePair:
    """One type on both sides; None where it does not exist."""

    identity: tuple[str, str]
    before: TableAt | None
    after: TableAt | None

    @property
    def key(self) -> TableKey:
        known = self.after or self.before
        assert known is not None
        return known.pin.key

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(t.entity.name for t in (self.before, self.after) if t is not None)


def differing_tables(a: Snapshot, b: Snapshot) -> list[TablePair]:
    """Types whose rows may differ, nodes first, by name."""
    before, after = tables_by_identity(a), tables_by_identity(b)
    pairs = [TablePair(i, before.get(i), after.get(i)) for i in {**before, **after}]
    differing = [p for p in pairs if not _equal(p)]
    return sorted(differing, key=lambda pair: sort_key(pair.key))


class ChangedIds:
    """Ids that may differ between two snapshots, table by table, smallest first."""

    def __init__(
        self,
        store: Store,
        lineage: Lineage | None,
        a: Snapshot,
        b: Snapshot,
        scratch: Scratch,
    ) -> None:
        """Without a `lineage` every differing table is scanned: the slow way to the same answer."""
        self._store = store
        self._scratch = scratch
        self._recorded = (
            ids_between(store.files, lineage, a.graph_commit_id, b.graph_commit_id, scratch)
            if lineage is not None
            else None
        )

    def chunks(
        self, pair: TablePair, after: str | None, size: Callable[[], int]
    ) -> Iterator[pa.Array]:
        return self.runs(pair).chunks(after, size)

    def runs(self, pair: TablePair) -> IdRuns:
        if _equal(pair):
            return IdRuns(self._scratch)
        return self.recorded(pair) or self._by_scan(pair)

    def recorded(self, pair: TablePair) -> IdRuns | None:
        """From what commits recorded alone; None where that would need a scan."""
        if self._recorded is None or pair.before is None or pair.after is None:
            return None
        location = pair.after.pin.location
        if location != pair.before.pin.location:
            return None  # dropped and added again, or added on two branches
        return self._recorded.get(location)

    def _by_scan(self, pair: TablePair) -> IdRuns:
        runs = IdRuns(self._scratch)
        for table in (pair.before, pair.after):
            if table is not None:
                for ids in id_batches(self._store.open(table.pin.at)):
                    runs.add(ids)
        return runs


def _equal(pair: TablePair) -> bool:
    if pair.before is None or pair.after is None:
        return pair.before is pair.after
    return same_content(pair.before.pin, pair.after.pin)

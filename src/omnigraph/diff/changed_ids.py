"""Which entities may differ between two commits, from what the commits in between recorded.

Every commit records the ids it changed against its first parent, and a merge also those in which it
may differ from its other parent. So a walk from two commits down to where they meet, along either
kind of parent, names every entity that can differ. A fast-forward has the content of its second
parent: that step costs nothing. Where a record is missing the table is named as unknown, and is
scanned.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.diff.entity_rows import TableAt, same_content, sort_key, tables_by_identity
from omnigraph.diff.id_runs import IdRuns, Scratch
from omnigraph.errors import SnapshotReclaimed
from omnigraph.lance_store.objects.control_files import ControlFiles
from omnigraph.lance_store.reads.scan import id_batches
from omnigraph.lance_store.store import Store
from omnigraph.manifest.layout import change_list_object
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.records import Commit, TableChanges
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import TableKey

OPS = ("insert", "update", "delete")


@dataclass(frozen=True, slots=True)
class _Reached:
    cost: int
    through: str | None
    """The commit we came down from."""
    merged: bool = False
    """By its merged parent, not by its first one."""


@dataclass(frozen=True, slots=True)
class Crossed:
    """A step of the walk: from a commit to one of its parents."""

    commit: Commit
    merged: bool
    """To the merged parent, not to the first one."""


def steps_between(lineage: Lineage, a: str, b: str) -> list[Crossed] | None:
    """Steps whose recorded changes cover the difference of `a` and `b`; None: no path known."""
    if lineage.find(a) is None or lineage.find(b) is None:
        return None
    sides = ({a: _Reached(0, None)}, {b: _Reached(0, None)})
    queue = [(-lineage.commit(start).created_at, start) for start in {a, b}]
    heapq.heapify(queue)
    while queue:
        # Commits are older than their children, so everything above this one has been seen.
        _, commit_id = heapq.heappop(queue)
        if all(commit_id in side for side in sides):
            crossed = {c for side in sides for c in _crossed(side, commit_id)}
            return [Crossed(lineage.commit(c), merged) for c, merged in sorted(crossed)]
        for parent, merged, cost in _steps(lineage.commit(commit_id)):
            stored = lineage.find(parent)
            if stored is None:
                continue
            if not any(parent in side for side in sides):
                heapq.heappush(queue, (-stored.commit.created_at, parent))
            for side in sides:
                _step_down(side, commit_id, parent, (cost, merged))
    return None


def _step_down(
    side: dict[str, _Reached], commit_id: str, parent: str, step: tuple[int, bool]
) -> None:
    if commit_id not in side:
        return
    total = side[commit_id].cost + step[0]
    if parent not in side or total < side[parent].cost:
        side[parent] = _Reached(total, commit_id, step[1])


def _steps(commit: Commit) -> Iterator[tuple[str, bool, int]]:
    """(parent, whether it is the merged one, how many ids the step names)."""
    differs = () if commit.equals_merged else commit.differs_from_merged
    if commit.merged_parent_commit_id is not None and differs is not None:
        yield commit.merged_parent_commit_id, True, _size(differs)
    if commit.parent_commit_id is not None:
        yield commit.parent_commit_id, False, 1 + _size(commit.changes)


def _size(lists: tuple[TableChanges, ...]) -> int:
    return sum(c.inserted + c.updated + c.deleted for c in lists)


def _crossed(side: dict[str, _Reached], meeting: str) -> Iterator[tuple[str, bool]]:
    step = side[meeting]
    while step.through is not None:
        yield step.through, step.merged
        step = side[step.through]


def recorded_ids(
    files: ControlFiles, lineage: Lineage, steps: list[Crossed], scratch: Scratch
) -> dict[str, IdRuns | None]:
    """Ids by table location; None where a step changed a table and did not say which ids."""
    found: dict[str, IdRuns | None] = {}
    for step in steps:
        tables = _apart_from_merged(lineage, step) if step.merged else _changed(step.commit)
        for location, changes in tables:
            runs = found.setdefault(location, IdRuns(scratch))
            if runs is not None and (changes is None or not _add(files, changes, runs)):
                found[location] = None
    return found


def _changed(commit: Commit) -> Iterator[tuple[str, TableChanges | None]]:
    """Tables in which a commit differs from its first parent."""
    listed = {changes.key: changes for changes in commit.changes}
    for pins in commit.pins:
        after = pins.after
        if after is None or (pins.before and pins.before.content_epoch == after.content_epoch):
            continue
        changes = listed.get(after.key)
        created_empty = changes is None and pins.before is None and after.row_count == 0
        if not created_empty:
            yield after.location, changes


def _apart_from_merged(
    lineage: Lineage, step: Crossed
) -> Iterator[tuple[str, TableChanges | None]]:
    """Tables in which a merge may differ from its merged parent."""
    if not step.commit.differs_from_merged:
        return
    tables = lineage.snapshot(step.commit.graph_commit_id).tables
    for changes in step.commit.differs_from_merged:
        yield tables[changes.key].location, changes


def change_lists(
    files: ControlFiles, changes: TableChanges
) -> tuple[pa.Array, pa.Array, pa.Array] | None:
    """(inserted, updated, deleted) ids of one table in one commit; None when the list is gone."""
    if changes.ids is not None:
        inserted, updated, deleted = (pa.array(part, pa.string()) for part in changes.ids)
        return inserted, updated, deleted
    data = files.get(change_list_object(changes.file)) if changes.file else None
    if data is None:
        return None
    table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
    ops = table.column("op").to_numpy()
    ids = table.column("id")
    inserted, updated, deleted = (
        ids.filter(pa.array(ops == np.int8(op))).combine_chunks() for op in range(len(OPS))
    )
    return inserted, updated, deleted


def _add(files: ControlFiles, changes: TableChanges, runs: IdRuns) -> bool:
    """A long list is unpacked a batch at a time."""
    if changes.ids is not None:
        for part in changes.ids:
            runs.add(pa.array(part, pa.string()))
        return True
    data = files.get(change_list_object(changes.file)) if changes.file else None
    if data is None:
        return False
    reader = pa.ipc.open_file(pa.py_buffer(data))
    for index in range(reader.num_record_batches):
        runs.add(reader.get_batch(index).column("id"))
    return True


def count_between(lineage: Lineage, a: str, b: str) -> int | None:
    """How many ids `ids_between` would name at most, without reading them; None: not known."""
    try:
        steps = steps_between(lineage, a, b)
    except SnapshotReclaimed:
        return None
    if steps is None:
        return None
    return sum(
        _size((s.commit.differs_from_merged or ()) if s.merged else s.commit.changes) for s in steps
    )


def ids_between(
    files: ControlFiles, lineage: Lineage, a: str, b: str, scratch: Scratch
) -> dict[str, IdRuns | None] | None:
    """`recorded_ids` of the walk from `a` to `b`; None when no walk is known any more."""
    try:
        steps = steps_between(lineage, a, b)
    except SnapshotReclaimed:
        return None
    return None if steps is None else recorded_ids(files, lineage, steps, scratch)


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

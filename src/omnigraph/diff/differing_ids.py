"""Which ids may differ between two snapshots, table by table.

Every commit records the ids that it changed against its first parent. A merge also records the ids
in which it may differ from its other parent. So a walk from two commits down to a commit where they
meet, along either kind of parent, names every entity that can differ. A fast-forward has exactly
the content of its merged parent, so that step names no ids. Where a record is missing, the ids of
the table are unknown, and both states of the table are scanned.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.diff.entity_rows import (
    TableAt,
    TypeIdentity,
    same_content,
    sort_key,
    tables_by_identity,
)
from omnigraph.diff.id_runs import IdRuns, Scratch
from omnigraph.errors import SnapshotReclaimed
from omnigraph.lance_store.objects.control_files import ControlFiles
from omnigraph.lance_store.reads.scan import id_batches
from omnigraph.lance_store.store import Store
from omnigraph.manifest.changed_ids import recorded_id_batches
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.records import Commit, TableChanges
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import TableKey


@dataclass(frozen=True, slots=True)
class TablePair:
    """The table of one type in both snapshots; None where the type does not exist."""

    identity: TypeIdentity
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

    @property
    def is_equal(self) -> bool:
        """Both hold the same rows, known without reading them."""
        if self.before is None or self.after is None:
            return self.before is self.after
        return same_content(self.before.pin, self.after.pin)


def differing_tables(a: Snapshot, b: Snapshot) -> list[TablePair]:
    """Types whose rows may differ: nodes before edges, then by name."""
    before, after = tables_by_identity(a), tables_by_identity(b)
    pairs = [TablePair(i, before.get(i), after.get(i)) for i in {**before, **after}]
    return sorted((p for p in pairs if not p.is_equal), key=lambda pair: sort_key(pair.key))


class DifferingIds:
    """Ids that may differ between two snapshots; a superset of those that do."""

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
        self._recorded: dict[str, IdRuns | None] = {}
        if lineage is not None:
            steps = steps_between(lineage, a.graph_commit_id, b.graph_commit_id)
            self._recorded = ids_of_steps(store.files, lineage, steps or [], scratch)

    def chunks(
        self, pair: TablePair, after: str | None, size: Callable[[], int]
    ) -> Iterator[pa.Array]:
        """In ascending order, those greater than `after`; `size` is asked before each chunk."""
        return self.runs(pair).chunks(after, size)

    def runs(self, pair: TablePair) -> IdRuns:
        if pair.is_equal:
            return IdRuns(self._scratch)
        return self.recorded(pair) or self.scanned(pair)

    def recorded(self, pair: TablePair) -> IdRuns | None:
        """Only from records of commits; None where a scan is needed."""
        if pair.before is None or pair.after is None:
            return None
        location = pair.after.pin.location
        if location != pair.before.pin.location:
            return None  # dropped and added again, or added on two branches
        return self._recorded.get(location)

    def scanned(self, pair: TablePair) -> IdRuns:
        """Every id of both states."""
        runs = IdRuns(self._scratch)
        for table in (pair.before, pair.after):
            if table is not None:
                for ids in id_batches(self._store.open(table.pin.at)):
                    runs.add(ids)
        return runs


@dataclass(frozen=True, slots=True)
class ParentStep:
    """A step of the walk: from a commit to one of its parents."""

    commit: Commit
    merged: bool
    """To the merged parent, not to the first one."""

    @property
    def changes(self) -> tuple[TableChanges, ...]:
        """What the commit recorded about this parent."""
        if self.merged:
            return self.commit.differs_from_merged or ()
        return self.commit.changes


def count_between(lineage: Lineage, a: str, b: str) -> int | None:
    """An upper bound of the differing ids, without reading them; None when it is not known."""
    steps = steps_between(lineage, a, b)
    return None if steps is None else sum(_size(step.changes) for step in steps)


def ids_of_steps(
    files: ControlFiles, lineage: Lineage, steps: list[ParentStep], scratch: Scratch
) -> dict[str, IdRuns | None]:
    """Ids by table location; None where a step changed a table and did not record which ids."""
    found: dict[str, IdRuns | None] = {}
    for step in steps:
        tables = _apart_from_merged(lineage, step) if step.merged else _changed(step.commit)
        for location, changes in tables:
            runs = found.setdefault(location, IdRuns(scratch))
            if runs is None:
                continue
            batches = None if changes is None else recorded_id_batches(files, changes)
            if batches is None:
                found[location] = None
                continue
            for ids in batches:
                runs.add(ids)
    return found


def _changed(commit: Commit) -> Iterator[tuple[str, TableChanges | None]]:
    """Tables in which a commit differs from its first parent: (location, its record)."""
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
    lineage: Lineage, step: ParentStep
) -> Iterator[tuple[str, TableChanges | None]]:
    """Tables in which a merge may differ from its merged parent: (location, its record)."""
    if not step.changes:
        return
    tables = lineage.snapshot(step.commit.graph_commit_id).tables
    for changes in step.changes:
        yield tables[changes.key].location, changes


@dataclass(frozen=True, slots=True)
class _Reached:
    cost: int
    through: str | None
    """The child that the walk came from."""
    merged: bool = False
    """Reached as the merged parent of that child, not as its first one."""


def steps_between(lineage: Lineage, a: str, b: str) -> list[ParentStep] | None:
    """Steps whose records cover the difference of `a` and `b`.

    None when no path is known, also because cleanup removed a part of the history.
    """
    try:
        return _walk(lineage, a, b)
    except SnapshotReclaimed:
        return None


def _walk(lineage: Lineage, a: str, b: str) -> list[ParentStep] | None:
    if lineage.find(a) is None or lineage.find(b) is None:
        return None
    sides = ({a: _Reached(0, None)}, {b: _Reached(0, None)})
    queue = [(-lineage.commit(start).created_at, start) for start in {a, b}]
    heapq.heapify(queue)
    while queue:
        # A commit is older than its children, so all children of this one have been visited.
        _, commit_id = heapq.heappop(queue)
        if all(commit_id in side for side in sides):
            crossed = {step for side in sides for step in _path_to(side, commit_id)}
            return [ParentStep(lineage.commit(c), merged) for c, merged in sorted(crossed)]
        for parent, merged, cost in _parents(lineage.commit(commit_id)):
            stored = lineage.find(parent)
            if stored is None:
                continue
            if not any(parent in side for side in sides):
                heapq.heappush(queue, (-stored.commit.created_at, parent))
            for side in sides:
                if commit_id in side:
                    total = side[commit_id].cost + cost
                    if parent not in side or total < side[parent].cost:
                        side[parent] = _Reached(total, commit_id, merged)
    return None


def _parents(commit: Commit) -> Iterator[tuple[str, bool, int]]:
    """(parent, whether it is the merged one, how many ids the step names)."""
    differs = () if commit.equals_merged else commit.differs_from_merged
    if commit.merged_parent_commit_id is not None and differs is not None:
        yield commit.merged_parent_commit_id, True, _size(differs)
    if commit.parent_commit_id is not None:
        yield commit.parent_commit_id, False, 1 + _size(commit.changes)


def _path_to(side: dict[str, _Reached], meeting: str) -> Iterator[tuple[str, bool]]:
    """(commit, to its merged parent) of every step from the start of a side to `meeting`."""
    step = side[meeting]
    while step.through is not None:
        yield step.through, step.merged
        step = side[step.through]


def _size(changes: tuple[TableChanges, ...]) -> int:
    return sum(c.inserted + c.updated + c.deleted for c in changes)

"""Which entities may differ between two commits, from what the commits in between recorded.

Every commit records the ids it changed against its first parent, and a merge writes what it brings
into the target's own rows. So the first-parent walk from two commits down to where they meet names
every entity that can differ. A fast-forward has the content of its second parent: the walk may step
across for nothing. Where a record is missing the table is named as unknown, and is scanned.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.diff.id_runs import IdRuns, Scratch
from omnigraph.errors import SnapshotReclaimed
from omnigraph.lance_store.control_files import ControlFiles
from omnigraph.manifest.layout import change_list_object
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.records import Commit, TableChanges

OPS = ("insert", "update", "delete")


@dataclass(frozen=True, slots=True)
class _Reached:
    cost: int
    through: str | None
    """The commit we came down from, whose changes the step crosses unless it is `free`."""
    free: bool


def commits_between(lineage: Lineage, a: str, b: str) -> list[Commit] | None:
    """Commits whose recorded changes cover the difference of `a` and `b`; None: no path known."""
    if lineage.find(a) is None or lineage.find(b) is None:
        return None
    sides = ({a: _Reached(0, None, True)}, {b: _Reached(0, None, True)})
    queue = [(-lineage.commit(start).created_at, start) for start in {a, b}]
    heapq.heapify(queue)
    while queue:
        # Commits are older than their children, so everything above this one has been seen.
        _, commit_id = heapq.heappop(queue)
        if all(commit_id in side for side in sides):
            crossed = {c for side in sides for c in _crossed(side, commit_id)}
            return [lineage.commit(c) for c in sorted(crossed)]
        for parent, free, cost in _steps(lineage.commit(commit_id)):
            stored = lineage.find(parent)
            if stored is None:
                continue
            if not any(parent in side for side in sides):
                heapq.heappush(queue, (-stored.commit.created_at, parent))
            for side in sides:
                _step_down(side, commit_id, parent, (cost, free))
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
    if commit.merged_parent_commit_id is not None and commit.equals_merged:
        yield commit.merged_parent_commit_id, True, 0
    if commit.parent_commit_id is not None:
        changed = sum(c.inserted + c.updated + c.deleted for c in commit.changes)
        yield commit.parent_commit_id, False, 1 + changed


def _crossed(side: dict[str, _Reached], meeting: str) -> Iterator[str]:
    step = side[meeting]
    while step.through is not None:
        if not step.free:
            yield step.through
        step = side[step.through]


def recorded_ids(
    files: ControlFiles, commits: list[Commit], scratch: Scratch
) -> dict[str, IdRuns | None]:
    """Ids by table location; None where a commit changed a table and did not say which ids."""
    found: dict[str, IdRuns | None] = {}
    for commit in commits:
        listed = {changes.key: changes for changes in commit.changes}
        for pins in commit.pins:
            after = pins.after
            if after is None or (pins.before and pins.before.content_epoch == after.content_epoch):
                continue
            runs = found.setdefault(after.location, IdRuns(scratch))
            if runs is None:
                continue
            changes = listed.get(after.key)
            if changes is None and pins.before is None and after.row_count == 0:
                continue  # created empty
            if changes is None or not _add(files, changes, runs):
                found[after.location] = None
    return found


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
    lists = change_lists(files, changes)
    if lists is None:
        return False
    for ids in lists:
        runs.add(ids)
    return True


def ids_between(
    files: ControlFiles, lineage: Lineage, a: str, b: str, scratch: Scratch
) -> dict[str, IdRuns | None] | None:
    """`recorded_ids` of the walk from `a` to `b`; None when no walk is known any more."""
    try:
        commits = commits_between(lineage, a, b)
    except SnapshotReclaimed:
        return None
    return None if commits is None else recorded_ids(files, commits, scratch)

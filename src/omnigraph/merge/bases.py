"""Best common ancestors of two commits in a history with merges; pure but for the lookups."""

from __future__ import annotations

import heapq

from omnigraph.errors import NotFound
from omnigraph.manifest.lineage import Lineage

_OURS, _THEIRS, _STALE = 1, 2, 4
_COMMON = _OURS | _THEIRS


def best_common_ancestors(lineage: Lineage, ours: str, theirs: str) -> list[str]:
    """Common ancestors that are no ancestor of another one; several after a criss-cross.

    A commit is younger than each of its parents, so taking the youngest first means that all
    descendants of a commit have been seen before it.
    """
    marks = {ours: _OURS}
    marks[theirs] = marks.get(theirs, 0) | _THEIRS
    queue: list[tuple[int, str]] = []
    for start in marks:
        heapq.heappush(queue, (-lineage.commit(start).created_at, start))
    found = []
    while any(not marks[commit_id] & _STALE for _, commit_id in queue):
        _, commit_id = heapq.heappop(queue)
        mark = marks[commit_id]
        if mark & _COMMON == _COMMON and not mark & _STALE:
            found.append(commit_id)
            mark |= _STALE
        for parent in _parents(lineage, commit_id):
            if parent not in marks:
                heapq.heappush(queue, (-lineage.commit(parent).created_at, parent))
            marks[parent] = marks.get(parent, 0) | mark
    return sorted(found)


def only_theirs(lineage: Lineage, ours: str, theirs: str) -> set[str]:
    """Commits that `theirs` has and `ours` does not."""
    marks = {theirs: _THEIRS}
    marks[ours] = marks.get(ours, 0) | _OURS
    queue: list[tuple[int, str]] = []
    for start in marks:
        heapq.heappush(queue, (-lineage.commit(start).created_at, start))
    found = set()
    while any(marks[commit_id] == _THEIRS for _, commit_id in queue):
        _, commit_id = heapq.heappop(queue)
        if marks[commit_id] == _THEIRS:
            found.add(commit_id)
        for parent in _parents(lineage, commit_id):
            if parent not in marks:
                heapq.heappush(queue, (-lineage.commit(parent).created_at, parent))
            marks[parent] = marks.get(parent, 0) | marks[commit_id]
    return found


def require_common(found: list[str], ours: str, theirs: str) -> list[str]:
    if not found:
        raise NotFound(f"{ours} and {theirs} have no common ancestor", ours=ours, theirs=theirs)
    return found


def _parents(lineage: Lineage, commit_id: str) -> tuple[str, ...]:
    stored = lineage.find(commit_id)
    return stored.parents if stored is not None else ()

"""Where lines of a history with merges come together; pure but for the lookups."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from omnigraph.errors import NotFound
from omnigraph.manifest.lineage import Lineage

_OURS, _THEIRS, _STALE = 1, 2, 4
_COMMON = _OURS | _THEIRS


def best_common_ancestors(lineage: Lineage, ours: tuple[str, ...], theirs: str) -> list[str]:
    """Ancestors that `theirs` shares with any of `ours` and that are no ancestor of another one.

    There are several after a criss-cross.

    A commit is younger than each of its parents, so taking the youngest first means that all
    descendants of a commit have been seen before it.
    """
    marks = dict.fromkeys(ours, _OURS)
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


def meeting_points(lineage: Lineage, heads: Iterable[str]) -> set[str]:
    """Every commit that a merge of two of the heads may be made against.

    Those are the best common ancestors of each two heads and, after a criss-cross, of these in
    turn. A few more may be named, never one less.
    """
    found: set[str] = set()
    starts = set(heads)
    while True:
        more = _first_shared(lineage, starts) - starts
        if not more:
            return found
        found |= more
        starts |= more


def _first_shared(lineage: Lineage, heads: set[str]) -> set[str]:
    """Commits that lie below more heads than any of their children does, and below two at least.

    Heads are bits. A child below the same heads is a better ancestor for each two of them; once
    all that is left has a child below every head, nothing further down can be one.
    """
    below = {head: 1 << bit for bit, head in enumerate(sorted(heads))}
    every = (1 << len(below)) - 1
    of_children: dict[str, set[int]] = {head: set() for head in below}
    queue = [(-lineage.commit(head).created_at, head) for head in below]
    heapq.heapify(queue)
    found = set()
    while any(every not in of_children[commit_id] for _, commit_id in queue):
        _, commit_id = heapq.heappop(queue)
        mask = below[commit_id]
        if mask.bit_count() > 1 and mask not in of_children[commit_id]:
            found.add(commit_id)
        for parent in _parents(lineage, commit_id):
            stored = lineage.find(parent)
            if stored is None:
                continue  # a broken log; `verify` reports it, and nothing below can be merged
            if parent not in below:
                heapq.heappush(queue, (-stored.commit.created_at, parent))
            below[parent] = below.get(parent, 0) | mask
            of_children.setdefault(parent, set()).add(mask)
    return found


def require_common(found: list[str], ours: str, theirs: str) -> list[str]:
    if not found:
        raise NotFound(f"{ours} and {theirs} have no common ancestor", ours=ours, theirs=theirs)
    return found


def _parents(lineage: Lineage, commit_id: str) -> tuple[str, ...]:
    stored = lineage.find(commit_id)
    return stored.parents if stored is not None else ()

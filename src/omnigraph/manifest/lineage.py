"""Commits by id over branches and merges, read lazily, and the common ancestors of heads.

The history of a branch holds its commits along first parents. The commits that a merge brought in
are in the `merged_history` page of the merge (`manifest.records.Commit`). So the ancestors of a
head can be found from that head alone, also when the merged branch was deleted.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

from omnigraph.errors import NotFound
from omnigraph.manifest.branch_state import BranchState
from omnigraph.manifest.history import CommitPage
from omnigraph.manifest.publication import undo_commits
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import Commit, StoredCommit
from omnigraph.manifest.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class _PagePosition:
    page: CommitPage
    position: int


class Lineage:
    """The commits that can be reached from some heads. Pages are read as far back as needed."""

    def __init__(self, reader: ManifestReader, states: Iterable[BranchState]) -> None:
        self._reader = reader
        self._places: dict[str, _PagePosition] = {}
        self._merged: dict[str, str] = {}
        """The head of a history that a merge brought in -> the id of its page."""
        self._pending: list[Iterator[CommitPage]] = []
        self._other_branches = True
        for state in states:
            self._pending.append(self._pages(state))
        for pages in self._pending:
            self._register(next(pages))

    def find(self, commit_id: str) -> StoredCommit | None:
        """A commit by id; None when it is on no branch and no merge brought it in."""
        place = self._place(commit_id)
        return place.page.commits[place.position] if place is not None else None

    def commit(self, commit_id: str) -> Commit:
        stored = self.find(commit_id)
        if stored is None:
            raise NotFound(f"no commit {commit_id!r} on any branch", commit=commit_id)
        return stored.commit

    def snapshot(self, commit_id: str) -> Snapshot:
        """The snapshot that a commit made visible."""
        commit = self.commit(commit_id)
        place = self._places[commit_id]
        newer = place.page.commits[place.position + 1 :]
        return Snapshot(
            graph_branch=commit.graph_branch,
            graph_commit_id=commit_id,
            graph_manifest_version=commit.graph_manifest_version,
            schema_id=commit.schema_id,
            catalog=self._reader.schemas.read(commit.schema_id).catalog,
            tables=undo_commits(place.page.tables, reversed(newer)),
            internal_schema_version=self._reader.format_version,
        )

    def step(self, commit_id: str) -> tuple[Snapshot, Snapshot]:
        """The snapshots (before, after) a commit; before the first commit there are no tables."""
        after = self.snapshot(commit_id)
        parent = self.commit(commit_id).parent_commit_id
        return self.snapshot(parent) if parent else replace(after, tables={}), after

    def first_parents(self, head: str) -> Iterator[StoredCommit]:
        """`head` and its ancestors along first parents, newest first."""
        current: str | None = head
        while current is not None:
            stored = self.find(current)
            if stored is None:
                return
            yield stored
            current = stored.parents[0] if stored.parents else None

    def _place(self, commit_id: str) -> _PagePosition | None:
        while commit_id not in self._places:
            if not self._read_more(commit_id):
                return None
        return self._places[commit_id]

    def _read_more(self, wanted: str) -> bool:
        merged = self._merged.pop(wanted, None)
        if merged is not None:
            self._register(self._reader.history.page(merged))
            return True
        if self._pending:
            page = next(self._pending[0], None)
            if page is None:
                self._pending.pop(0)
            else:
                self._register(page)
                self._pending.append(self._pending.pop(0))  # take turns
            return True
        return self._read_elsewhere()

    def _read_elsewhere(self) -> bool:
        """The commit is not below our heads: try the other branches, then every merge."""
        if self._other_branches:
            self._other_branches = False
            for name in self._reader.branch_refs.names():
                try:
                    self._pending.append(self._pages(self._reader.branch(name)[1]))
                except NotFound:
                    continue  # deleted since its name was listed
            return True
        if self._merged:
            _, merged = self._merged.popitem()
            self._register(self._reader.history.page(merged))
            return True
        return False

    def _pages(self, state: BranchState) -> Iterator[CommitPage]:
        window = CommitPage(state.commits, tuple(state.tables.values()))
        return iter(chain((window,), self._reader.history.pages(state.history)))

    def _register(self, page: CommitPage) -> None:
        for position, stored in enumerate(page.commits):
            self._places.setdefault(stored.commit_id, _PagePosition(page, position))
            merged = stored.commit.merged_history if len(stored.parents) > 1 else None
            if merged is not None:
                self._merged.setdefault(stored.parents[1], merged)


_OURS, _THEIRS, _STALE = 1, 2, 4
_COMMON = _OURS | _THEIRS


def best_common_ancestors(lineage: Lineage, ours: tuple[str, ...], theirs: str) -> list[str]:
    """Common ancestors of `theirs` and any of `ours` that are no ancestor of another such commit.

    There are several after a criss-cross merge. The walk takes the youngest commit first. A commit
    is younger than its parents, so all descendants of a commit are seen before the commit itself.
    """
    marks = dict.fromkeys(ours, _OURS)
    marks[theirs] = marks.get(theirs, 0) | _THEIRS
    queue = _YoungestFirst(lineage.commit(start) for start in marks)
    found = []
    while any(not marks[commit_id] & _STALE for commit_id in queue):
        commit_id = queue.pop()
        mark = marks[commit_id]
        if mark & _COMMON == _COMMON and not mark & _STALE:
            found.append(commit_id)
            mark |= _STALE
        for parent in _parents(lineage, commit_id):
            if parent not in marks:
                queue.push(lineage.commit(parent))
            marks[parent] = marks.get(parent, 0) | mark
    return sorted(found)


def only_theirs(lineage: Lineage, ours: str, theirs: str) -> set[str]:
    """Commits that `theirs` has and `ours` does not."""
    marks = {theirs: _THEIRS}
    marks[ours] = marks.get(ours, 0) | _OURS
    queue = _YoungestFirst(lineage.commit(start) for start in marks)
    found = set()
    while any(marks[commit_id] == _THEIRS for commit_id in queue):
        commit_id = queue.pop()
        if marks[commit_id] == _THEIRS:
            found.add(commit_id)
        for parent in _parents(lineage, commit_id):
            if parent not in marks:
                queue.push(lineage.commit(parent))
            marks[parent] = marks.get(parent, 0) | marks[commit_id]
    return found


def meeting_points(lineage: Lineage, heads: Iterable[str]) -> set[str]:
    """Every commit that a merge of two of the heads may use as its ancestor.

    These are the best common ancestors of each two heads and, after a criss-cross merge, the common
    ancestors of these. The result may hold a few commits more, but none is missing.
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
    """Commits below at least two heads, of which no child is below the same heads.

    A set of heads is a bit mask. A child below the same heads is a better ancestor for each two of
    them. The walk ends when every commit in the queue has a child below all heads.
    """
    below = {head: 1 << bit for bit, head in enumerate(sorted(heads))}
    every = (1 << len(below)) - 1
    of_children: dict[str, set[int]] = {head: set() for head in below}
    queue = _YoungestFirst(lineage.commit(head) for head in below)
    found = set()
    while any(every not in of_children[commit_id] for commit_id in queue):
        commit_id = queue.pop()
        mask = below[commit_id]
        if mask.bit_count() > 1 and mask not in of_children[commit_id]:
            found.add(commit_id)
        for parent in _parents(lineage, commit_id):
            stored = lineage.find(parent)
            if stored is None:
                continue  # the log is broken; `verify` reports it, and commits below are lost
            if parent not in below:
                queue.push(stored.commit)
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


class _YoungestFirst:
    """A queue of commit ids; the youngest commit leaves it first."""

    def __init__(self, commits: Iterable[Commit]) -> None:
        self._heap: list[tuple[int, str]] = []
        for commit in commits:
            self.push(commit)

    def push(self, commit: Commit) -> None:
        heapq.heappush(self._heap, (-commit.created_at, commit.graph_commit_id))

    def pop(self) -> str:
        return heapq.heappop(self._heap)[1]

    def __iter__(self) -> Iterator[str]:
        return (commit_id for _, commit_id in self._heap)

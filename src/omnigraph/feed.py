"""The change feed (`g.changes`): the changes of a branch, commit by commit, in bounded pages.

The feed follows first parents. A cursor is bound to the graph, to the branch's incarnation, to the
filter and to the rules of its reader. It names the last commit that was read and, inside the next
one, the last change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph.diff.change import Change, ChangeFilter
from omnigraph.diff.snapshot_diff import (
    REJECTED,
    ChangePosition,
    decode_cursor,
    encode_cursor,
    filter_json,
    scope_mark,
    snapshot_changes,
    take,
)
from omnigraph.errors import FeedGap, InvalidArgument, NotFound, SnapshotReclaimed
from omnigraph.evolve.apply import changes_between
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import Commit, StoredCommit
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.schema.steps import StepClass
from omnigraph.values.identifiers import TableKey

NOW, BEGINNING = "now", "beginning"
_AFTER = "after:"
_FEED_CURSOR = "changes"
_COMMITS_PER_PAGE = 128
_BYTES_PER_PAGE = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FeedBlock:
    """The changes of one commit, or a part of them; a baseline block holds whole entities."""

    commit: Commit
    changes: tuple[Change, ...]
    complete: bool
    """False: the next page continues with the same commit."""
    baseline: bool = False
    schema_steps: tuple[Mapping[str, Any], ...] = ()
    """How the commit changed the schema, before its changes; the steps of `graph.schema.plan`."""
    cursor: str = field(default="", compare=False, repr=False)
    """The place behind this block; `FeedPage.cursor` is that of the last one, or later."""

    @property
    def schema_version(self) -> str:
        """The accepted schema that the images follow."""
        return self.commit.schema_id

    def to_dict(self) -> dict[str, Any]:
        return {
            "commit": self.commit.to_dict(),
            "schema_version": self.schema_version,
            "baseline": self.baseline,
            "complete": self.complete,
            "schema_steps": [dict(step) for step in self.schema_steps],
            "changes": [change.to_dict() for change in self.changes],
        }


@dataclass(frozen=True, slots=True)
class FeedPage:
    """Some blocks and the cursor behind them; with `has_more` the next page is ready now."""

    graph_branch: str
    blocks: tuple[FeedBlock, ...]
    cursor: str
    has_more: bool

    def to_dict(self) -> dict[str, Any]:
        return {
            "graph_branch": self.graph_branch,
            "blocks": [block.to_dict() for block in self.blocks],
            "cursor": self.cursor,
            "has_more": self.has_more,
        }


Seen = Callable[[Snapshot], Snapshot]


def seen_whole(snapshot: Snapshot) -> Snapshot:
    return snapshot


@dataclass(frozen=True, slots=True)
class FeedRequest:
    """Which branch, which changes of it, and how many in one page."""

    branch: str
    wanted: ChangeFilter
    limit: int = 1000
    seen: Seen = seen_whole
    """A snapshot as the reader of this page may see it."""
    goes_on: Seen | None = None
    """A snapshot as the reader of later pages may see it, if that is another part."""
    shown: Callable[[Commit], Commit] = lambda commit: commit
    """A commit as the reader of the feed may see it."""


def poll(reader: ManifestReader, request: FeedRequest, cursor: str | None, start: str) -> FeedPage:
    """The changes behind `cursor`; without a cursor, from `start`."""
    feed = _Feed(reader, request)
    position = feed.scope.decode(cursor) if cursor is not None else feed.begin(start)
    return feed.page(position)


def baseline(reader: ManifestReader, request: FeedRequest) -> FeedPage:
    """The entities of the head commit as inserts; the cursor then continues with later commits.

    Both start from one commit, so no change is missed between them and none comes twice.
    """
    feed = _Feed(reader, request)
    return feed.page(_FeedPosition(feed.head, baseline=True))


def cursor_behind(reader: ManifestReader, request: FeedRequest, commit_id: str) -> str:
    """The cursor of a reader that has the whole state of this commit already."""
    return _Feed(reader, request).scope.encode(_FeedPosition(commit_id))


@dataclass(frozen=True, slots=True)
class _FeedPosition:
    """Everything up to `commit` was read and, of the commit after it, everything up to `inside`.

    `commit` is None before the first commit. With `baseline`, the entities of `commit` itself are
    being read.
    """

    commit: str | None
    inside: ChangePosition | None = None
    baseline: bool = False


@dataclass(frozen=True, slots=True)
class _FeedScope:
    """What a cursor is bound to: one incarnation of one branch of one graph, filter and rules."""

    graph_id: str
    incarnation: str
    wanted: ChangeFilter
    rules: Callable[[str], str | None]
    """The mark of the rules that the reader has at a commit."""

    def encode(self, position: _FeedPosition) -> str:
        inside = position.inside
        rules = None if position.commit is None else self.rules(position.commit)
        return encode_cursor(
            _FEED_CURSOR,
            {
                "graph": self.graph_id,
                "incarnation": self.incarnation,
                "filter": filter_json(self.wanted),
                "commit": position.commit,
                "inside": [str(inside.key), inside.entity_id] if inside else None,
                "baseline": position.baseline,
                **({"rules": rules} if rules is not None else {}),
            },
        )

    def decode(self, cursor: str) -> _FeedPosition:
        body = decode_cursor(_FEED_CURSOR, cursor)
        if body.get("graph") != self.graph_id:
            raise InvalidArgument(f"{REJECTED} it belongs to another graph")
        if body.get("incarnation") != self.incarnation:
            raise FeedGap(
                f"{REJECTED} it belongs to another branch, or to a deleted branch of the same "
                "name: take a new baseline"
            )
        if body.get("filter") != filter_json(self.wanted):
            raise InvalidArgument(f"{REJECTED} it was made for another filter")
        commit = body["commit"]
        if commit is not None and body.get("rules") != self.rules(commit):
            raise FeedGap(f"{REJECTED} it was made under other rules: take a new baseline")
        inside = body["inside"]
        position = ChangePosition(TableKey.parse(inside[0]), inside[1]) if inside else None
        return _FeedPosition(commit, position, body["baseline"])


class _Room:
    """What still fits into a page: so many changes, and about so many bytes of them."""

    def __init__(self, changes: int) -> None:
        self._changes = changes
        self._bytes = _BYTES_PER_PAGE

    @property
    def is_full(self) -> bool:
        return self._changes <= 0 or self._bytes <= 0

    def take(self, changes: Iterator[Change]) -> tuple[list[Change], bool]:
        """(those that fit, whether there are more)."""
        found, more = take(changes, self._changes, self._bytes)
        self._changes -= len(found)
        self._bytes -= sum(change.size for change in found)
        return found, more


class _Feed:
    def __init__(self, reader: ManifestReader, request: FeedRequest) -> None:
        if request.limit < 1:
            raise InvalidArgument(f"limit must be a positive number, not {request.limit!r}")
        self._request = request
        self._reader = reader
        self._store = reader.store
        ref, state = reader.branch(request.branch)
        self._lineage = Lineage(reader, (state,))
        self.head = state.head_commit_id
        self._reading: str | None = None
        self._head_state = reader.snapshot(ref, state)
        request.wanted.check_types(request.seen(self._head_state).catalog)
        self.scope = _FeedScope(
            reader.graph_id(state), ref.incarnation, request.wanted, self._rules_at
        )

    def _rules_at(self, commit_id: str) -> str | None:
        """The rules of the reader in the schema of a commit: later schemas do not change them."""
        seen = self._request.goes_on or self._request.seen
        stored = self._lineage.find(commit_id)
        if seen is seen_whole or stored is None:
            return None
        catalog = self._reader.schemas.read(stored.commit.schema_id).catalog
        return scope_mark(seen(replace(self._head_state, catalog=catalog)))

    def begin(self, start: str) -> _FeedPosition:
        if start == NOW:
            return _FeedPosition(self.head)
        if start == BEGINNING:
            return _FeedPosition(None)
        if not start.startswith(_AFTER):
            raise InvalidArgument(f"start {start!r} is not now, beginning or after:<commit id>")
        name = start.removeprefix(_AFTER)
        commit_id = CommitGraph(self._reader).resolve(name, self._request.branch)
        if not any(c.commit_id == commit_id for c in self._lineage.first_parents(self.head)):
            raise NotFound(
                f"no commit {commit_id!r} on branch {self._request.branch!r}", commit=commit_id
            )
        return _FeedPosition(commit_id)

    def page(self, position: _FeedPosition) -> FeedPage:
        try:
            return self._page(position)
        except FeedGap:
            raise
        except SnapshotReclaimed as error:
            raise FeedGap(
                f"changes behind this cursor were removed by cleanup ({error.message}): "
                "take a new baseline",
                branch=self._request.branch,
                commit=getattr(error, "commit", None) or self._reading,
            ) from error

    def _page(self, position: _FeedPosition) -> FeedPage:
        blocks: list[FeedBlock] = []
        room = _Room(self._request.limit)
        if position.baseline:
            assert position.commit is not None
            block, position = self._baseline_block(position, position.commit, room)
            blocks.append(self._placed(block, position))
        waiting = self._waiting(position) if not position.baseline else []
        finished = 0
        for stored in waiting[:_COMMITS_PER_PAGE]:
            if room.is_full:
                break
            block, position = self._block(stored, position, room)
            finished += block.complete
            if block.changes or block.schema_steps:
                blocks.append(self._placed(block, position))
        has_more = position.baseline or finished < len(waiting)
        cursor = self.scope.encode(position)
        return FeedPage(self._request.branch, tuple(blocks), cursor, has_more)

    def _placed(self, block: FeedBlock, behind: _FeedPosition) -> FeedBlock:
        return replace(block, cursor=self.scope.encode(behind))

    def _waiting(self, position: _FeedPosition) -> list[StoredCommit]:
        """Commits after the one that was read last, oldest first."""
        newest_first: list[StoredCommit] = []
        for stored in self._lineage.first_parents(self.head):
            if stored.commit_id == position.commit:
                return newest_first[::-1]
            newest_first.append(stored)
        if position.commit is not None:
            raise FeedGap(
                f"commit {position.commit} is not in the history of branch "
                f"{self._request.branch!r}: take a new baseline",
                branch=self._request.branch,
                commit=position.commit,
            )
        return newest_first[::-1]

    def _block(
        self, stored: StoredCommit, position: _FeedPosition, room: _Room
    ) -> tuple[FeedBlock, _FeedPosition]:
        self._reading = stored.commit_id
        before, after = map(self._request.seen, self._lineage.step(stored.commit_id))
        steps = self._schema_steps(stored.commit, before, after)
        found, more = room.take(self._changes(before, after, position.inside))
        told = steps if position.inside is None else ()
        commit = self._request.shown(stored.commit)
        block = FeedBlock(commit, tuple(found), complete=not more, schema_steps=told)
        return block, _moved(position, stored.commit_id, block)

    def _schema_steps(
        self, commit: Commit, before: Snapshot, after: Snapshot
    ) -> tuple[Mapping[str, Any], ...]:
        """The schema change of a commit. A change that loses values needs a new baseline."""
        if commit.parent_commit_id is None or before.schema_id == after.schema_id:
            return ()
        is_whole = before.scope is None and after.scope is None
        steps = self._reader.schemas.read(after.schema_id).steps if is_whole else ()
        if not steps:  # a merge or a revert, or a part of the schema
            changes = changes_between(before.catalog, after.catalog)
            steps = tuple(step.to_dict() for step in changes.steps)
        lost = next((step for step in steps if step["class"] == StepClass.LOSSY.value), None)
        if lost is not None:
            raise FeedGap(
                f"commit {commit.graph_commit_id} changed the schema and lost values "
                f"({lost['kind']}): take a new baseline",
                branch=self._request.branch,
                commit=commit.graph_commit_id,
            )
        return steps

    def _baseline_block(
        self, position: _FeedPosition, commit_id: str, room: _Room
    ) -> tuple[FeedBlock, _FeedPosition]:
        self._reading = commit_id
        snapshot = self._request.seen(self._lineage.snapshot(commit_id))
        empty = replace(snapshot, tables={})
        found, more = room.take(self._changes(empty, snapshot, position.inside))
        commit = self._request.shown(self._lineage.commit(commit_id))
        block = FeedBlock(commit, tuple(found), complete=not more, baseline=True)
        return block, _moved(position, commit_id, block)

    def _changes(
        self, before: Snapshot, after: Snapshot, inside: ChangePosition | None
    ) -> Iterator[Change]:
        wanted = self._request.wanted
        return snapshot_changes(self._store, self._lineage, before, after, wanted, inside)


def _moved(position: _FeedPosition, commit_id: str, block: FeedBlock) -> _FeedPosition:
    """The position behind a block of this commit."""
    if block.complete:
        return _FeedPosition(commit_id)
    return replace(position, inside=ChangePosition.of(block.changes[-1]))

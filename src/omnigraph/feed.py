"""The change feed: commit by commit along first parents, in bounded pages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from omnigraph.diff.change import Change, ChangeFilter
from omnigraph.diff.snapshot_diff import (
    Position,
    decode_cursor,
    encode_cursor,
    snapshot_changes,
    take,
)
from omnigraph.errors import FeedGap, InvalidArgument, NotFound, SnapshotReclaimed
from omnigraph.manifest.branch_state import BranchState
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import Commit, StoredCommit
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import TableKey

_KIND = "changes"


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read: one incarnation of one branch of one graph, through one filter."""

    graph_id: str
    incarnation: str
    wanted: ChangeFilter

    def to_json(self) -> dict[str, Any]:
        filters = {k: list(v) if v is not None else None for k, v in asdict(self.wanted).items()}
        return {"graph": self.graph_id, "incarnation": self.incarnation, "filter": filters}


@dataclass(frozen=True, slots=True)
class Standing:
    """Everything up to `commit` was seen and, of the step after it, everything up to `inside`.

    `commit` None: nothing yet. `baseline`: the entities of `commit` itself are being handed out.
    """

    commit: str | None
    inside: Position | None = None
    baseline: bool = False

    def moved_to(self, commit: str) -> Standing:
        return Standing(commit)

    def at(self, position: Position) -> Standing:
        return replace(self, inside=position)


def encode(reading: Reading, standing: Standing) -> str:
    inside = standing.inside
    return encode_cursor(
        _KIND,
        {
            **reading.to_json(),
            "commit": standing.commit,
            "inside": [str(inside.key), inside.entity_id] if inside else None,
            "baseline": standing.baseline,
        },
    )


def decode(cursor: str, reading: Reading) -> Standing:
    body = decode_cursor(_KIND, cursor)
    wanted = reading.to_json()
    if body.get("graph") != wanted["graph"]:
        raise InvalidArgument("this cursor belongs to another graph")
    if body.get("incarnation") != wanted["incarnation"]:
        raise FeedGap(
            "this cursor belongs to another branch, or to one of this name that was deleted: "
            "take a new baseline"
        )
    if body.get("filter") != wanted["filter"]:
        raise InvalidArgument("this cursor was made for another filter")
    inside = body["inside"]
    position = Position(TableKey.parse(inside[0]), inside[1]) if inside else None
    return Standing(body["commit"], position, body["baseline"])


@dataclass(frozen=True, slots=True)
class FeedBlock:
    """The changes of one commit, or a part of them; a baseline block holds whole entities."""

    commit: Commit
    changes: tuple[Change, ...]
    complete: bool
    """False: the next page goes on with the same commit."""
    baseline: bool = False

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
            "changes": [change.to_dict() for change in self.changes],
        }


@dataclass(frozen=True, slots=True)
class FeedPage:
    """Some blocks and the cursor behind them; `has_more`: ask again at once."""

    branch: str
    blocks: tuple[FeedBlock, ...]
    cursor: str
    has_more: bool

    def to_dict(self) -> dict[str, Any]:
        return {
            "branch": self.branch,
            "blocks": [block.to_dict() for block in self.blocks],
            "cursor": self.cursor,
            "has_more": self.has_more,
        }


_COMMITS_PER_PAGE = 1000
_AFTER = "after:"
NOW, BEGINNING = "now", "beginning"


@dataclass(frozen=True, slots=True)
class FeedRequest:
    """Which branch, through which filter, and how much at a time."""

    branch: str
    wanted: ChangeFilter
    limit: int = 1000


def poll(reader: ManifestReader, request: FeedRequest, cursor: str | None, start: str) -> FeedPage:
    """The changes behind `cursor`; without one, from `start`."""
    feed = _Feed(reader, request)
    standing = feed.decode(cursor) if cursor is not None else feed.begin(start)
    return feed.page(standing)


def baseline(reader: ManifestReader, request: FeedRequest) -> FeedPage:
    """The head's entities as inserts; the cursor leads through them and on to what came after.

    Both are of one commit, so nothing is missed between them and nothing comes twice.
    """
    feed = _Feed(reader, request)
    return feed.page(Standing(feed.head, baseline=True))


class _Feed:
    def __init__(self, reader: ManifestReader, request: FeedRequest) -> None:
        if request.limit < 1:
            raise InvalidArgument(f"limit is a positive number, got {request.limit!r}")
        self._request = request
        self._store = reader.store
        ref, state = reader.branch(request.branch)
        self._lineage = Lineage(reader, (state,))
        self.head = state.head_commit_id
        request.wanted.check_types(reader.snapshot(ref, state).catalog)
        self._reading = Reading(_graph_id(reader, state), ref.incarnation, request.wanted)

    def decode(self, cursor: str) -> Standing:
        return decode(cursor, self._reading)

    def begin(self, start: str) -> Standing:
        if start == NOW:
            return Standing(self.head)
        if start == BEGINNING:
            return Standing(None)
        if not start.startswith(_AFTER):
            raise InvalidArgument(f"start {start!r} is none of now, beginning, after:<commit id>")
        commit_id = start.removeprefix(_AFTER)
        if not any(c.commit_id == commit_id for c in self._lineage.first_parents(self.head)):
            raise NotFound(
                f"no commit {commit_id!r} on branch {self._request.branch!r}", commit=commit_id
            )
        return Standing(commit_id)

    def page(self, standing: Standing) -> FeedPage:
        try:
            return self._page(standing)
        except FeedGap:
            raise
        except SnapshotReclaimed as error:
            raise FeedGap(
                f"changes behind this cursor were removed by cleanup ({error.message}): "
                "take a new baseline",
                branch=self._request.branch,
            ) from error

    def _page(self, standing: Standing) -> FeedPage:
        blocks: list[FeedBlock] = []
        room = self._request.limit
        if standing.baseline:
            assert standing.commit is not None
            block, standing = self._baseline_block(standing, standing.commit, room)
            blocks.append(block)
            room -= len(block.changes)
        waiting = self._waiting(standing) if not standing.baseline else []
        seen = 0
        for stored in waiting[:_COMMITS_PER_PAGE]:
            if room == 0:
                break
            block, standing = self._block(stored, standing, room)
            seen += block.complete
            if block.changes:
                blocks.append(block)
            room -= len(block.changes)
        has_more = standing.baseline or seen < len(waiting)
        cursor = encode(self._reading, standing)
        return FeedPage(self._request.branch, tuple(blocks), cursor, has_more)

    def _waiting(self, standing: Standing) -> list[StoredCommit]:
        """Commits after the one that was seen last, oldest first."""
        newest_first: list[StoredCommit] = []
        for stored in self._lineage.first_parents(self.head):
            if stored.commit_id == standing.commit:
                return newest_first[::-1]
            newest_first.append(stored)
        if standing.commit is not None:
            raise FeedGap(
                f"commit {standing.commit} is not in the history of branch "
                f"{self._request.branch!r}: take a new baseline",
                branch=self._request.branch,
            )
        return newest_first[::-1]

    def _block(
        self, stored: StoredCommit, standing: Standing, room: int
    ) -> tuple[FeedBlock, Standing]:
        step = self._lineage.step(stored.commit_id)
        found, more = take(self._changes(step, standing.inside), room)
        block = FeedBlock(stored.commit, tuple(found), complete=not more)
        if more:
            return block, standing.at(_position(found[-1]))
        return block, standing.moved_to(stored.commit_id)

    def _baseline_block(
        self, standing: Standing, commit_id: str, room: int
    ) -> tuple[FeedBlock, Standing]:
        snapshot = self._lineage.snapshot(commit_id)
        everything = self._changes((replace(snapshot, tables={}), snapshot), standing.inside)
        found, more = take(everything, room)
        block = FeedBlock(
            self._lineage.commit(commit_id), tuple(found), complete=not more, baseline=True
        )
        if more:
            return block, standing.at(_position(found[-1]))
        return block, standing.moved_to(commit_id)

    def _changes(
        self, sides: tuple[Snapshot, Snapshot], after: Position | None
    ) -> Iterator[Change]:
        return snapshot_changes(self._store, self._lineage, sides, self._request.wanted, after)


def _position(change: Change) -> Position:
    return Position(TableKey.parse(f"{change.kind}:{change.type.name}"), change.id)


def _graph_id(reader: ManifestReader, state: BranchState) -> str:
    """The first commit: every branch has it, no other graph does."""
    return reader.history.oldest(state.history) or state.commits[0].commit_id

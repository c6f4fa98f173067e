"""`/changes` and `/commits/{id}/changes`: pages, long polls and server-sent events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from msgspec import Struct

from omnigraph.diff.change import ChangeFilter
from omnigraph.errors import AdmissionRefused, OmnigraphError
from omnigraph.feed import NOW, FeedPage
from omnigraph.graph import commit_history
from omnigraph.manifest.records import Commit
from omnigraph.policy import actions
from omnigraph.server import answers as tell
from omnigraph.server.calls import Call, in_thread
from omnigraph.server.negotiation import choose_media
from omnigraph.server.replies import Receive, Refusal, Scope, Send, encode, reply_of
from omnigraph.server.route_entry import RouteEntry
from omnigraph.server.state import DRAINING
from omnigraph.values.identifiers import MAIN
from omnigraph.wire.changes import (
    cause_to_json,
    change_page_to_json,
    feed_block_to_json,
    feed_page_to_json,
)

EVENTS = "text/event-stream"
_MEDIA = ("application/json", EVENTS)
_MOST_CHANGES = 8192
_LONGEST_WAIT = 30.0
_PAGE_BYTES = 4 * 1024 * 1024
_HEARTBEAT_SECONDS = 15.0
_DRAIN_LOOK_SECONDS = 1.0
_MOST_LISTENERS = 512
_EVENT_CHANGES = 1000
FEED_STATUSES = (400, 401, 403, 404, 409, 410, 413, 429, 500, 503)


class ChangesQuery(Struct):
    """Where a feed goes on, what it has, and how long a client waits for it."""

    branch: str = MAIN
    cursor: str | None = None
    start: str | None = None
    page_token: str | None = None
    limit: int = 1000
    kind: list[str] | None = None
    type: list[str] | None = None
    op: list[str] | None = None
    wait: float = 0


class BaselineQuery(Struct):
    """A page of a baseline; `POST` sends all of it as a stream."""

    branch: str = MAIN
    limit: int = 1000
    kind: list[str] | None = None
    type: list[str] | None = None


class CommitChangesQuery(Struct):
    """A page of the changes of one commit."""

    branch: str = MAIN
    page_token: str | None = None
    limit: int = 1000
    kind: list[str] | None = None
    type: list[str] | None = None
    op: list[str] | None = None


async def poll_changes(call: Call) -> Any:
    """GET `/changes`: one page, at once or after a wait, or events until the client goes."""
    asked: ChangesQuery = call.query
    _require_limit(asked.limit)
    if not 0 <= asked.wait <= _LONGEST_WAIT:
        raise Refusal(400, f"wait is 0 to {_LONGEST_WAIT:.0f} seconds, not {asked.wait:g}")
    media = choose_media(call.header(b"accept"), _MEDIA)
    if media is None:
        raise Refusal(406, f"this route answers with {', '.join(_MEDIA)}")
    place = _place(asked, call.header(b"last-event-id") if media == EVENTS else None)
    follower = _Follower(call, asked, *place)
    if media == EVENTS:
        return await _events(call, follower)
    deadline = time.monotonic() + asked.wait
    page = await follower.next_page()
    while not page.blocks and not page.has_more:
        left = deadline - time.monotonic()
        if left <= 0 or not await follower.moved(left):
            break
        page = await follower.next_page()
    return feed_page_to_json(page)


def _require_limit(limit: int) -> None:
    if not 1 <= limit <= _MOST_CHANGES:
        raise Refusal(400, f"limit is 1 to {_MOST_CHANGES:,}, not {limit}")


def _place(asked: ChangesQuery, event_id: str | None) -> tuple[str | None, str]:
    """(cursor, start). An event id is newer than what the address of the request says."""
    named = [asked.cursor, asked.start, asked.page_token]
    if sum(value is not None for value in named) > 1:
        raise Refusal(400, "cursor, start and page_token exclude each other: give one")
    if event_id:
        return event_id, NOW
    cursor = asked.cursor if asked.cursor is not None else asked.page_token
    return cursor, asked.start if asked.start is not None else NOW


class _Follower:
    """Reads a feed page by page, and waits for the next commit."""

    def __init__(self, call: Call, asked: ChangesQuery, cursor: str | None, start: str) -> None:
        self._call = call
        self._asked = asked
        self._start = start
        self.cursor = cursor
        self._head = ""

    async def next_page(self, limit: int | None = None) -> FeedPage:
        page = await in_thread(self._call, lambda: self._poll(limit))
        assert isinstance(page, FeedPage)
        self.cursor = page.cursor
        return page

    def _poll(self, limit: int | None) -> FeedPage:
        asked, graph = self._asked, self._call.graph
        # Looked up first: a commit between both is seen by the next wait at once.
        self._head = graph.branches.show(asked.branch).head_commit_id
        return graph.changes(
            asked.branch,
            self.cursor,
            self._start,
            types=asked.type,
            kinds=asked.kind,
            ops=asked.op,
            limit=limit or asked.limit,
        )

    async def moved(self, seconds: float) -> bool:
        """Wait until the branch has another head; False after so many seconds."""
        call, branch = self._call, self._asked.branch
        served = call.served
        assert served is not None

        def look() -> str:
            return served.graph.engine.reader.branch(branch)[1].head_commit_id

        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if call.state.phase == DRAINING:
                return False
            slice_seconds = min(left, _DRAIN_LOOK_SECONDS)
            key = (id(served.graph.engine), branch)
            if await call.state.heads.moved(key, look, call.state.reads, self._head, slice_seconds):
                return True
        return False

    @property
    def is_draining(self) -> bool:
        return self._call.state.phase == DRAINING


class _EventStream:
    """Server-sent events as ASGI. A client that goes away ends them."""

    listeners = 0

    def __init__(self, events: AsyncIterator[bytes]) -> None:
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        sending = asyncio.ensure_future(self._send(send))
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            for task in (sending, gone):
                task.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)

    async def _send(self, send: Send) -> None:
        _EventStream.listeners += 1
        try:
            async for event in self._events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            _EventStream.listeners -= 1


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _events(call: Call, follower: _Follower) -> _EventStream:
    """The first page is read before the answer begins, so that a wrong cursor has its status."""
    if _EventStream.listeners >= _MOST_LISTENERS:
        raise AdmissionRefused(
            f"{_MOST_LISTENERS} listeners at once is the limit; repeat it later",
            reason="event_streams",
            retry_after=5.0,
            limit=_MOST_LISTENERS,
        )
    first = await follower.next_page(_EVENT_CHANGES)
    return _EventStream(_followed(call, follower, first))


async def _followed(call: Call, follower: _Follower, page: FeedPage) -> AsyncIterator[bytes]:
    """Blocks as they come. An event without a block tells a cursor that has moved on."""
    told = ""
    try:
        while True:
            for block in page.blocks:
                yield _event("block", block.cursor, feed_block_to_json(block))
                told = block.cursor
            if page.cursor != told:
                yield _event("cursor", page.cursor, {"cursor": page.cursor})
                told = page.cursor
            while not page.has_more and not await follower.moved(_HEARTBEAT_SECONDS):
                if follower.is_draining:
                    return
                yield b": heartbeat\n\n"
            page = await follower.next_page(_EVENT_CHANGES)
    except OmnigraphError as error:
        envelope = reply_of(error, call.request_id).body
        yield _event("error", told, envelope)


def _event(name: str, cursor: str, data: Any) -> bytes:
    lines = [f"event: {name}\n".encode()]
    if cursor:
        lines.append(f"id: {cursor}\n".encode())
    return b"".join([*lines, b"data: ", encode(data), b"\n\n"])


def baseline_page(call: Call) -> Any:
    """GET `/changes/baseline`: the first page; `/changes` goes on from its cursor."""
    asked: BaselineQuery = call.query
    _require_limit(asked.limit)
    page = call.graph.baseline(asked.branch, types=asked.type, kinds=asked.kind, limit=asked.limit)
    return feed_page_to_json(page)


def commit_changes(call: Call) -> Any:
    """GET `/commits/{commit_id}/changes`. A commit that may not be read is like an unknown one."""
    asked: CommitChangesQuery = call.query
    _require_limit(asked.limit)
    name = call.path["commit_id"]
    commit = call.graph.commits.show(name, asked.branch)
    wanted = ChangeFilter.of(asked.type, asked.kind, asked.op)
    if commit.parent_commit_id is None:
        raise _parentless(commit)
    page = commit_history.commit_changes(
        call.graph.engine,
        call.graph.access.commits(),
        commit.graph_commit_id,
        asked.branch,
        wanted,
        asked.limit,
        asked.page_token,
        _PAGE_BYTES,
        seen=call.graph.seen,
    )
    return {"cause": cause_to_json(commit), **change_page_to_json(page)}


def _parentless(commit: Commit) -> Refusal:
    refused = {"reason": "parentless_commit", "graph_commit_id": commit.graph_commit_id}
    return Refusal(
        409,
        f"{commit.graph_commit_id} is the first commit: it has no parent to compare with",
        details={"change_diff_refusal": refused},
    )


FEED_ROUTES = (
    RouteEntry(
        "GET",
        "/changes",
        "pollChanges",
        "changes",
        poll_changes,
        "The changes of a branch, commit by commit.",
        action=actions.READ,
        query=ChangesQuery,
        strict_query=True,
        answer=tell.ChangeFeedOutput,
        media=("application/json", EVENTS),
        statuses=(*FEED_STATUSES, 406),
    ),
    RouteEntry(
        "GET",
        "/changes/baseline",
        "pollChangeBaseline",
        "changes",
        baseline_page,
        "The first page of a baseline, whose cursor goes on in /changes.",
        action=actions.EXPORT,
        query=BaselineQuery,
        strict_query=True,
        answer=tell.ChangeFeedOutput,
        statuses=FEED_STATUSES,
    ),
    RouteEntry(
        "GET",
        "/commits/{commit_id}/changes",
        "getCommitChanges",
        "changes",
        commit_changes,
        "What one commit changed.",
        action=actions.READ,
        query=CommitChangesQuery,
        strict_query=True,
        answer=tell.CommitChangesOutput,
        statuses=FEED_STATUSES,
    ),
)

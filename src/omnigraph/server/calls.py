"""One request on its way: what the pipeline found out about it, and its work in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from omnigraph import tracing
from omnigraph.errors import InvalidArgument, Unauthenticated
from omnigraph.graph.handle import Graph
from omnigraph.manifest.records import Commit
from omnigraph.server.replies import Headers, Receive, Refusal, Scope
from omnigraph.server.route_entry import RouteEntry
from omnigraph.server.served_graphs import ServedGraph
from omnigraph.server.state import ServerState

_WATCH_AFTER_SECONDS = 0.02
_ON_LOOP_SECONDS = 0.01
"""How long a read may run on the event loop, where all other requests wait for it."""
REPLAYED = (b"idempotency-replayed", b"true")


@dataclass(slots=True)
class Call:
    """A request and its context. `body` and `query` are decoded as the route declares them."""

    state: ServerState
    route: RouteEntry
    scope: Scope
    receive: Receive
    request_id: str
    path: Mapping[str, str]
    actor: str | None = None
    served: ServedGraph | None = None
    body: Any = None
    query: Any = None
    raw: bytes = b""
    """The body as it came, decoded; empty for a route that reads it as a stream."""
    headers: Headers = field(default_factory=list)
    """Further headers of the answer."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Fields of the access line: `query_name`, `graph_commit_id`."""
    is_inline: bool = False
    """Runs on the event loop, where nothing can cancel it."""
    is_cut_short: bool = False
    """It got less time than the request and the server allow, because it ran on the event loop."""
    operation_key: str | None = None
    """The key that an operation made up, when the client gave none."""
    _cancel: threading.Event | None = None
    _given: dict[bytes, bytes] | None = None

    @property
    def cancel(self) -> threading.Event:
        """Set when the client goes away; reads stop then."""
        if self._cancel is None:
            self._cancel = threading.Event()
        return self._cancel

    @cancel.setter
    def cancel(self, event: threading.Event) -> None:
        self._cancel = event

    @property
    def graph_id(self) -> str | None:
        return self.served.graph_id if self.served is not None else None

    @property
    def graph(self) -> Graph:
        """The graph of the path, as the caller of the request."""
        assert self.served is not None
        return self.served.as_actor(self.actor)

    def header(self, name: bytes) -> str | None:
        """The value of a request header, by its name in lower case; the last one counts."""
        value = self.given.get(name)
        return None if value is None else value.decode("latin-1")

    @property
    def given(self) -> dict[bytes, bytes]:
        """The request headers by name in lower case."""
        if self._given is None:
            self._given = dict(self.scope["headers"])
        return self._given

    def headers_named(self, name: bytes) -> list[bytes]:
        return [value for given, value in self.scope["headers"] if given == name]

    @property
    def authorization(self) -> str | None:
        """The `Authorization` header; two of them name no caller."""
        given = self.headers_named(b"authorization")
        if len(given) > 1:
            raise Unauthenticated("the request has several Authorization headers")
        return given[0].decode("latin-1") if given else None

    def closes_connection(self) -> None:
        """The answer is the last one on this connection."""
        self.scope["exchange"].headers.append((b"connection", b"close"))

    def timeout(self, asked_ms: int | None = None) -> float | None:
        """Seconds that this read may take: the limit of the server, or less if asked for.

        On the event loop it may take a moment only, and is then made again in a thread.
        """
        most = self.state.settings.limits.query_timeout_ms
        if asked_ms is not None and asked_ms <= 0:
            raise InvalidArgument("timeout_ms is at least 1", option="timeout_ms")
        allowed = asked_ms if not most else most if asked_ms is None else min(asked_ms, most)
        seconds = None if allowed is None else allowed / 1000
        if self.is_inline and (seconds is None or seconds > _ON_LOOP_SECONDS):
            self.is_cut_short = True
            return _ON_LOOP_SECONDS
        return seconds

    @property
    def idempotency_key(self) -> str | None:
        """The `Idempotency-Key` header: at most 128 visible ASCII characters."""
        given = self.headers_named(b"idempotency-key")
        if not given:
            return self.operation_key
        if len(given) > 1:
            raise Refusal(400, "the request has several Idempotency-Key headers: send one")
        return _usable_key(given[0].decode("latin-1"))

    def key_or(self, in_body: str | None) -> str | None:
        """The `Idempotency-Key` header, or the key that a body may have instead."""
        key = self.idempotency_key
        if in_body is None:
            return key
        if key not in (None, in_body):
            raise Refusal(400, "the header Idempotency-Key and the body have two keys: send one")
        return _usable_key(in_body)


def _usable_key(key: str) -> str:
    if not 1 <= len(key) <= 128 or not all("!" <= letter <= "~" for letter in key):
        raise Refusal(400, "Idempotency-Key is 1 to 128 visible ASCII characters")
    return key


async def in_thread(
    call: Call, work: Callable[[], Any], pool: ThreadPoolExecutor | None = None
) -> Any:
    """Run in a thread of the pool for this kind of request.

    When the client goes away, `call.cancel` is set for a read, which then stops. An admitted write
    goes on to its end.
    """
    if tracing.is_on():
        work = partial(copy_context().run, work)
    running = asyncio.get_running_loop().run_in_executor(pool or pool_of(call), work)
    done, _ = await asyncio.wait({running}, timeout=_WATCH_AFTER_SECONDS)
    if done:
        return running.result()
    if call.route.admission is not None:
        return await asyncio.shield(running)
    watch = asyncio.ensure_future(_gone(call.receive))
    try:
        await asyncio.wait({running, watch}, return_when=asyncio.FIRST_COMPLETED)
        if watch.done():
            call.cancel.set()
        return await asyncio.shield(running)
    finally:
        watch.cancel()


def pool_of(call: Call) -> ThreadPoolExecutor:
    state = call.state
    return state.writes if call.route.admission is not None else state.reads


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def noted(call: Call, commit: Commit | None, *, repeated: bool = False) -> None:
    """What every write reports: its commit to log and metrics, and whether it was repeated."""
    if repeated:
        call.headers.append(REPLAYED)
    if commit is None:
        return
    call.notes["graph_commit_id"] = commit.graph_commit_id
    if not repeated:
        call.state.metrics.committed(call.graph_id or "", commit.operation)

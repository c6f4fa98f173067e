"""The ASGI application: routing, the order in which a request is checked, and the answers.

The order is observable: routing, token, graph, body and query, then the operation of the graph,
which asks the policy and takes a slot.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any

from starlette.routing import Route, Router

from omnigraph import tracing
from omnigraph.errors import (
    AlreadyExists,
    CommitRejected,
    IdempotencyConflict,
    KeyConflict,
    MergeConflicts,
    PolicyDenied,
    ResourceLimit,
    Unavailable,
)
from omnigraph.server.bodies_in import decode_body, decode_query, read_body
from omnigraph.server.calls import Call, in_thread
from omnigraph.server.exchange import API_VERSION, Cors, Exchange, log_request, request_id_of
from omnigraph.server.openapi import document
from omnigraph.server.repeated_answers import RepeatedAnswers
from omnigraph.server.replies import (
    Application,
    Headers,
    Message,
    Receive,
    Refusal,
    Reply,
    Scope,
    Send,
    WholeAnswer,
    encode,
    has_tag,
    reply_of,
)
from omnigraph.server.route_entry import GRAPH, RouteEntry
from omnigraph.server.state import STARTING, ServerState
from omnigraph.server.streamed_replies import StreamedReply

_INLINE_SECONDS = 0.001
_SLOW_SECONDS = 60.0
_MOST_INLINE = 4096
_NESTED = "/graphs/{graph_id}"
_CONFLICTS = (AlreadyExists, CommitRejected, IdempotencyConflict, KeyConflict, MergeConflicts)


class HttpApplication:
    """The server as ASGI."""

    def __init__(self, state: ServerState, entries: Sequence[RouteEntry]) -> None:
        self.state = state
        self.entries = tuple(entries)
        state.make_document = lambda: encode(
            document(entries, state.version, secured=state.needs_token)
        )
        origins = state.settings.cors_origins
        self._cors = Cors(origins) if origins else None
        paths = _paths(self, entries)
        # Most requests name a path without further parameters, which a dict finds at once.
        self._known = {path: found for path, found in paths.items() if "{" not in path}
        self._nested = {
            path.removeprefix(_NESTED): found
            for path, found in paths.items()
            if path.startswith(_NESTED) and "{" not in path.removeprefix(_NESTED)
        }
        routes = [Route(path, found, methods=None) for path, found in _specific_first(paths)]
        self._router = Router(routes, redirect_slashes=False)
        self._router.default = self._unknown_path
        self._pace: dict[Any, float] = {}
        self._repeated = RepeatedAnswers(state)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] != "http":
            await _refuse_websocket(scope, send)
            return
        exchange = Exchange(scope)
        exchange.send = send
        scope["exchange"] = exchange
        if not tracing.is_on():
            await self._guarded(exchange, self._answer(exchange, scope, receive))
            return
        given = dict(scope["headers"]).get(b"traceparent")
        method, name = scope["method"], "http request"
        above = tracing.joined(given.decode("latin-1") if given else None)
        with above, tracing.span(name, method=method, request_id=exchange.request_id) as current:
            await self._guarded(exchange, self._answer(exchange, scope, receive))
            current.update_name(f"{method} {exchange.route}")
            current.set_attribute("http.response.status_code", exchange.status)

    def is_prompt(self, scope: Scope) -> bool:
        """Whether a request names a read that may run on the event loop."""
        found = self._route(scope)
        entry = found.methods.get(scope["method"]) if isinstance(found, _Path) else None
        return entry is not None and entry.inline_key is not None

    def answer_now(self, scope: Scope, body: bytes) -> WholeAnswer | Application:
        """The answer to a whole request with `is_prompt`, or the application that answers it."""
        if tracing.is_on() or self._cors is not None:
            return self
        repeated = self._repeated.answer(scope, body)
        if repeated is not None:
            return repeated
        exchange = Exchange(scope)
        scope["exchange"] = exchange
        try:
            found = self._read_now(exchange, scope, body)
            answer = exchange.whole(found) if isinstance(found, Reply) else None
        except Exception as error:  # noqa: BLE001 - every failure has an answer
            found = self._failed(error, exchange)
            answer = exchange.whole(found)
        if found is None:
            return self
        if answer is None:
            return self._rest(exchange, found)
        self._observe(exchange)
        return answer

    def _read_now(
        self, exchange: Exchange, scope: Scope, body: bytes
    ) -> Reply | Application | None:
        """Run a read that was fast the last time; None: it was not, or nothing is known of it."""
        entry: RouteEntry = self._route(scope).entry(scope)
        call = self._begun(exchange, entry, scope, _nothing_more)
        if len(body) > self._most_bytes(entry) or b"content-encoding" in call.given:
            return None
        self._decode(call, exchange, body)
        assert entry.inline_key is not None
        key = entry.inline_key(call)
        last = self._pace.get(key)
        if last is None or last >= _INLINE_SECONDS:
            return None
        found = self._on_loop(call, key, last)
        return None if found is None else self._made(call, exchange, found)

    def _rest(self, exchange: Exchange, found: Reply | Application) -> Application:
        """An application that sends an answer which is made already."""

        async def send_rest(scope: Scope, receive: Receive, send: Send) -> None:
            exchange.send = send
            await self._guarded(exchange, self._send(exchange, found, receive))

        return send_rest

    async def _guarded(self, exchange: Exchange, work: Coroutine[Any, Any, None]) -> None:
        """Answer the failures of a request, count it and write its line."""
        try:
            await work
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if exchange.started:
                raise
            await exchange.answer(self._failed(error, exchange))
        finally:
            self._observe(exchange)

    async def _answer(self, exchange: Exchange, scope: Scope, receive: Receive) -> None:
        if self._cors is not None and await self._cors.handled(exchange):
            return
        found = self._route(scope)
        if isinstance(found, _Path):
            await self.handle(found.entry(scope), scope, receive)
        else:
            await found(scope, receive, exchange.sending)

    def _failed(self, error: BaseException, exchange: Exchange) -> Reply:
        """The answer to a request that failed, which is counted."""
        if isinstance(error, PolicyDenied):
            self.state.metrics.denied(error.action or "unknown")
        elif isinstance(error, _CONFLICTS):
            self.state.metrics.conflicted(error.code)
        return reply_of(error, exchange.request_id)

    def _observe(self, exchange: Exchange) -> None:
        """Count the request, and write its line."""
        seconds = time.perf_counter() - exchange.began
        self.state.metrics.observe(
            exchange.route,
            exchange.scope["method"],
            exchange.status,
            exchange.call.graph_id if exchange.call else None,
            seconds,
        )
        log_request(exchange, seconds)

    def _route(self, scope: Scope) -> Any:
        path: str = scope["path"]
        found = self._known.get(path)
        scope["path_params"] = {}
        if found is None and path.startswith("/graphs/"):
            graph_id, slash, rest = path[8:].partition("/")
            found = self._nested.get(slash + rest)
            scope["path_params"] = {"graph_id": graph_id} if found is not None else {}
        return found or self._router

    async def _unknown_path(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise Refusal(404, f"no route {scope['path']!r} on this server")

    async def handle(self, entry: RouteEntry, scope: Scope, receive: Receive) -> None:
        """The pipeline of one request, after routing."""
        exchange: Exchange = scope["exchange"]
        call = self._begun(exchange, entry, scope, receive)
        if entry.body is not None:
            self._decode(call, exchange, await read_body(call, self._most_bytes(entry)))
        call.query = decode_query(call, entry)
        await self._send(exchange, self._made(call, exchange, await self._run(call)), receive)

    def _most_bytes(self, entry: RouteEntry) -> int:
        limit: int = getattr(self.state.settings.limits, entry.body_limit)
        return limit

    def _begun(self, exchange: Exchange, entry: RouteEntry, scope: Scope, receive: Receive) -> Call:
        """The call of a request whose body is still to be read, with its actor and its graph."""
        exchange.route = entry.full_path
        path = scope["path_params"]
        call = Call(self.state, entry, scope, receive, exchange.request_id, path)
        exchange.call = call
        if not entry.public:
            self._admit(call, exchange)
        if entry.successor is not None and "graph_id" in path:
            exchange.headers += _deprecated(entry.successor)
        return call

    def _decode(self, call: Call, exchange: Exchange, body: bytes) -> None:
        call.raw = body
        exchange.bytes_in = len(body)
        call.body = decode_body(call, call.route)

    def _made(self, call: Call, exchange: Exchange, found: Any) -> Reply | Application:
        """What a handler found, as an answer with its tag, or as an application that sends it."""
        exchange.headers += call.headers
        if callable(found):
            sender: Application = found
            return sender
        reply = found if isinstance(found, Reply) else Reply(found)
        if reply.etag is not None:
            reply = _with_tag(call, reply)
        if reply.snapshot is not None:
            self._repeated.keep(call, reply, exchange)
        return reply

    async def _send(self, exchange: Exchange, found: Reply | Application, receive: Receive) -> None:
        if isinstance(found, Reply):
            await exchange.answer(found)
        else:
            await found(exchange.scope, receive, exchange.sending)

    def _admit(self, call: Call, exchange: Exchange) -> None:
        """Find the actor of the token and the graph of the path."""
        state = self.state
        if state.needs_token:
            call.actor = state.tokens.actor_of(call.authorization)
        if state.phase == STARTING:
            raise Unavailable("the server starts", reason="starting", retry_after=1.0)
        if call.route.place == GRAPH:
            call.served = self._graph(call, exchange)

    def _graph(self, call: Call, exchange: Exchange) -> Any:
        graph_id = call.path.get("graph_id")
        if graph_id is not None:
            return self.state.graphs.find(graph_id)
        found = self.state.graphs.default
        if found is None:
            raise Refusal(404, "this server has several graphs: name one, /graphs/ID/…")
        newer = call.route.successor
        path = exchange.scope["path"] if newer is None else f"/{newer}"
        exchange.headers += _deprecated(f"/graphs/{found.graph_id}{path}")
        return found

    async def _run(self, call: Call) -> Any:
        entry = call.route
        if entry.is_coroutine:
            return await entry.handler(call)
        key = None if entry.inline_key is None else entry.inline_key(call)
        if key is None:
            return await in_thread(call, lambda: entry.handler(call))
        return await self._paced(call, key)

    async def _paced(self, call: Call, key: Any) -> Any:
        """Run a read on the event loop if it was fast the last time, else in a thread.

        A thread costs more than a fast read, and a slow read on the loop would stop all others.
        """
        last = self._pace.get(key)
        if last is None:
            return await in_thread(call, lambda: self._timed(call, key, _SLOW_SECONDS))
        if last < _INLINE_SECONDS:
            found = self._on_loop(call, key, last)
            if found is not None:
                return found
            return await in_thread(call, lambda: self._timed(call, key, _SLOW_SECONDS))
        kept = call.route.kept
        found = kept(call) if kept is not None else None
        if found is not None:
            return found
        return await in_thread(call, lambda: self._timed(call, key, last))

    def _on_loop(self, call: Call, key: Any, last: float) -> Any:
        """What a read that was fast finds on the event loop; None: with these parameters it is not.

        Then it stops after a short time, and is made again in a thread.
        """
        call.is_inline = True
        try:
            return self._timed(call, key, last)
        except ResourceLimit as error:
            if error.limit != "timeout" or not call.is_cut_short:
                raise
            self._pace[key] = _SLOW_SECONDS
            return None
        finally:
            call.is_inline = False

    def _timed(self, call: Call, key: Any, last: float) -> Any:
        """Run the handler, and note how long a read took that had an answer.

        A failure says nothing about the next run, and neither does an answer that was kept. A
        stored query that is a mutation stays slow, because it must not run on the event loop.
        """
        began = time.perf_counter()
        found = call.route.handler(call)
        if not (isinstance(found, Reply) and found.is_kept):
            if len(self._pace) >= _MOST_INLINE:
                self._pace.clear()
            is_read = isinstance(found, Reply | StreamedReply)
            # One slow run among fast ones, on a busy machine, does not count at once.
            seconds = min(time.perf_counter() - began, 2 * last)
            self._pace[key] = seconds if is_read else _SLOW_SECONDS
        return found


def _deprecated(successor: str) -> Headers:
    return [
        (b"deprecation", b"true"),
        (b"link", f'<{successor}>; rel="successor-version"'.encode()),
    ]


def _with_tag(call: Call, reply: Reply) -> Reply:
    assert reply.etag is not None
    reply.headers.append((b"etag", f'W/"{reply.etag}"'.encode()))
    if has_tag(call.header(b"if-none-match"), reply.etag):
        return Reply(b"", 304, reply.headers)
    return reply


class _Path:
    """All methods of one path, as an ASGI application."""

    def __init__(self, application: HttpApplication) -> None:
        self._application = application
        self.methods: dict[str, RouteEntry] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._application.handle(self.entry(scope), scope, receive)

    def entry(self, scope: Scope) -> RouteEntry:
        """The entry of the method; refuses others with 405."""
        entry = self.methods.get(scope["method"])
        if entry is None:
            allowed = ", ".join(sorted(self.methods)).encode()
            raise Refusal(
                405,
                f"{scope['method']} is not a method of {scope['path']}",
                [(b"allow", allowed)],
            )
        return entry


def _paths(application: HttpApplication, entries: Sequence[RouteEntry]) -> dict[str, _Path]:
    """The methods of each path. Flat paths serve the default graph."""
    paths: dict[str, _Path] = {}
    for flat in (False, True):
        for entry in entries:
            if flat and entry.place != GRAPH:
                continue
            path = entry.path if flat else entry.full_path
            known = paths.setdefault(path, _Path(application))
            known.methods.setdefault(entry.method, entry)
            if entry.method == "GET":
                known.methods.setdefault("HEAD", entry)
    return paths


def _specific_first(paths: dict[str, _Path]) -> list[tuple[str, _Path]]:
    """Paths with fewer parameters first, so that `/branches/merge` is not a branch."""
    return sorted(paths.items(), key=lambda item: (item[0].count("{"), "path}" in item[0]))


async def _refuse_websocket(scope: Scope, send: Send) -> None:
    """Answer a handshake as any request for an unknown path; only the console has WebSockets."""
    request_id = request_id_of(scope["headers"])
    told = Refusal(404, f"no route {scope['path']!r} for a WebSocket on this server")
    reply = reply_of(told, request_id)
    headers = [
        (b"content-type", reply.media_type),
        (b"x-request-id", request_id.encode()),
        API_VERSION,
    ]
    start = {"type": "websocket.http.response.start", "status": reply.status}
    await send({**start, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": reply.content()})


async def _nothing_more() -> Message:
    """`receive` of a request that is whole and whose answer does not wait."""
    return {"type": "http.disconnect"}


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return

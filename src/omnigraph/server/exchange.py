"""One request from its first byte to the last of its answer: its id, its line in the log, CORS."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Sequence
from typing import Any

from omnigraph.server.calls import Call
from omnigraph.server.compression import SMALLEST_PACKED, VARY, is_compressible, pack
from omnigraph.server.negotiation import choose_encoding
from omnigraph.server.replies import Headers, Message, Reply, Scope, Send

access = logging.getLogger("omnigraph.access")
API_VERSION = (b"omnigraph-http-api", b"1")
_TRACEPARENT_LENGTH = 55
_PACKED_ON_LOOP = 64 * 1024
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(first + second for first in _ALPHABET for second in _ALPHABET)
_PAIR_BITS = 10
_TIME_SHIFTS = range(40, -1, -_PAIR_BITS)
_CHANCE_SHIFTS = range(70, -1, -_PAIR_BITS)
_EXPOSED = (
    b"ETag, Retry-After, X-Request-Id, Omnigraph-Snapshot-Id, Content-Range, Deprecation, Link"
)
_METHODS = b"GET, HEAD, POST, DELETE"
_ALLOWED = (
    b"Authorization, Content-Type, Content-Encoding, Accept, Idempotency-Key, If-Match, "
    b"If-None-Match, If-Range, Range, Prefer, X-Request-Id, Omnigraph-If-Graph-Commit, traceparent"
)
_PREFLIGHT_SECONDS = b"600"
_REQUESTED = b"access-control-request-method"
_LOOKED_AT = frozenset({b"origin", _REQUESTED})


class Exchange:
    """What an answer needs besides its body, and what the access line says."""

    __slots__ = (
        "began",
        "bytes_in",
        "bytes_out",
        "call",
        "headers",
        "request_id",
        "route",
        "scope",
        "send",
        "started",
        "status",
        "trace",
    )

    def __init__(self, scope: Scope, send: Send, request_id: str) -> None:
        self.scope = scope
        self.send = send
        self.request_id = request_id
        self.began = time.perf_counter()
        self.route = "unknown"
        self.call: Call | None = None
        self.headers: Headers = [(b"x-request-id", request_id.encode()), API_VERSION]
        self.started = False
        self.status = 0
        self.bytes_in = 0
        self.bytes_out = 0

    async def sending(self, message: Message) -> None:
        """`send` with the headers of every answer, counted."""
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *self.headers]
        elif message["type"] == "http.response.body":
            self.bytes_out += len(message.get("body", b""))
        await self.send(message)

    async def answer(self, reply: Reply) -> None:
        head = self.scope["method"] == "HEAD"
        content = b"" if reply.status == 304 else reply.content()
        headers: Headers = list(reply.headers)
        if len(content) >= SMALLEST_PACKED and self.call is not None:
            content, packed = await self._packed(reply, content)
            headers += packed
        if reply.status != 304:
            headers += [
                (b"content-type", reply.media_type),
                (b"content-length", str(len(content)).encode()),
            ]
        await self.sending(
            {"type": "http.response.start", "status": reply.status, "headers": headers}
        )
        await self.sending({"type": "http.response.body", "body": b"" if head else content})

    async def repeat(self, headers: Headers, content: bytes) -> None:
        """An answer that is there whole, with its length among its headers."""
        self.started, self.status, self.bytes_out = True, 200, len(content)
        await self.send(
            {"type": "http.response.start", "status": 200, "headers": [*headers, *self.headers]}
        )
        await self.send({"type": "http.response.body", "body": content})

    async def _packed(self, reply: Reply, content: bytes) -> tuple[bytes, Headers]:
        """The content as the client wants it compressed, and the headers that say so."""
        call = self.call
        assert call is not None
        if not is_compressible(reply.media_type):
            return content, []
        encoding = choose_encoding(call.header(b"accept-encoding"))
        if encoding is None:
            return content, [VARY]
        if len(content) < _PACKED_ON_LOOP:
            return pack(content, encoding), [(b"content-encoding", encoding.encode()), VARY]
        pool = call.state.reads
        packed = await asyncio.get_running_loop().run_in_executor(pool, pack, content, encoding)
        return packed, [(b"content-encoding", encoding.encode()), VARY]


def log_request(exchange: Exchange) -> None:
    """The access line. It has no token, no parameter and no row."""
    if not access.isEnabledFor(logging.INFO):
        return
    call = exchange.call
    fields: dict[str, Any] = {
        "request_id": exchange.request_id,
        "method": exchange.scope["method"],
        "route": exchange.route,
        "graph_id": call.graph_id if call else None,
        "actor_id": call.actor if call else None,
        "status": exchange.status,
        "ms": round((time.perf_counter() - exchange.began) * 1000, 2),
        "bytes_in": exchange.bytes_in,
        "bytes_out": exchange.bytes_out,
    }
    if call is not None:
        fields |= call.notes
        trace = call.header(b"traceparent")
        if trace is not None and len(trace) == _TRACEPARENT_LENGTH:
            fields["trace_id"] = trace[3:35]
    access.info("request", extra={"fields": fields})


_time_part = (0, "")


def new_request_id() -> str:
    """A ULID: 48 bits of milliseconds and 80 bits by chance. It names a request, and is no secret.

    It is made ten times as fast as the ids of commits, which must also increase.
    """
    global _time_part
    millis = time.time_ns() // 1_000_000
    known, text = _time_part
    if known != millis:
        text = "".join([_PAIRS[millis >> shift & 1023] for shift in _TIME_SHIFTS])
        _time_part = (millis, text)
    number = random.getrandbits(80)
    return text + "".join([_PAIRS[number >> shift & 1023] for shift in _CHANCE_SHIFTS])


class Cors:
    """Answers preflights before authentication, and marks answers to known origins."""

    def __init__(self, origins: Sequence[str]) -> None:
        self._origins = frozenset(origin.encode() for origin in origins)

    async def handled(self, exchange: Exchange) -> bool:
        """True when the request was a preflight and is answered."""
        if not self._origins:
            return False
        given = {name: value for name, value in exchange.scope["headers"] if name in _LOOKED_AT}
        origin = given.get(b"origin")
        exchange.headers.append((b"vary", b"Origin"))
        if origin is None or (origin not in self._origins and b"*" not in self._origins):
            return False
        any_origin = b"*" in self._origins
        exchange.headers.append((b"access-control-allow-origin", b"*" if any_origin else origin))
        if exchange.scope["method"] == "OPTIONS" and _REQUESTED in given:
            headers: Headers = [
                (b"access-control-allow-methods", _METHODS),
                (b"access-control-allow-headers", _ALLOWED),
                (b"access-control-max-age", _PREFLIGHT_SECONDS),
            ]
            exchange.route = "preflight"
            await exchange.answer(Reply(b"", 204, headers))
            return True
        exchange.headers.append((b"access-control-expose-headers", _EXPOSED))
        return False

"""One request from its first byte to the last of its answer: its id, its line in the log, CORS."""

from __future__ import annotations

import asyncio
import logging
import random
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph.server.calls import Call
from omnigraph.server.compression import SMALLEST_PACKED, VARY, is_compressible, pack
from omnigraph.server.negotiation import choose_encoding
from omnigraph.server.replies import (
    Headers,
    Message,
    Reply,
    Scope,
    Send,
    WholeAnswer,
    head_lines,
)

access = logging.getLogger("omnigraph.access")
API_VERSION = (b"omnigraph-http-api", b"1")
_TRACEPARENT_LENGTH = 55
_PACKED_ON_LOOP = 64 * 1024
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(first + second for first in _ALPHABET for second in _ALPHABET)
_PAIR_BITS = 10
_TIME_SHIFTS = range(40, -1, -_PAIR_BITS)
_PROCESS_BITS, _COUNT_BITS = 50, 30
_PROCESS_SHIFTS = range(40, -1, -_PAIR_BITS)
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_EXPOSED = (
    b"ETag, Retry-After, X-Request-Id, Omnigraph-Snapshot-Id, Content-Range, Deprecation, Link"
)
_METHODS = b"GET, HEAD, POST, DELETE"
_ALLOWED = (
    b"Authorization, Content-Type, Content-Encoding, Accept, Idempotency-Key, If-Match, "
    b"If-None-Match, If-Range, Range, Prefer, X-Request-Id, Omnigraph-If-Graph-Commit, traceparent"
)
_NOT_MODIFIED = 304
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

    send: Send

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.request_id = request_id = request_id_of(scope["headers"])
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
        """Send an answer whose body is whole."""
        content = reply.content()
        packed: Headers = []
        if self._may_be_packed(content):
            content, packed = await self._packed(reply, content)
        headers, sent = self._framed(reply, content, packed)
        await self.sending(
            {"type": "http.response.start", "status": reply.status, "headers": headers}
        )
        await self.sending({"type": "http.response.body", "body": sent})

    def whole(self, reply: Reply) -> WholeAnswer | None:
        """The answer that `answer` would send; None: it may be compressed first."""
        content = reply.content()
        if self._may_be_packed(content):
            return None
        headers, sent = self._framed(reply, content, [])
        self.status, self.bytes_out = reply.status, len(sent)
        return WholeAnswer(reply.status, head_lines(headers + self.headers), sent)

    def _framed(self, reply: Reply, content: bytes, packed: Headers) -> tuple[Headers, bytes]:
        """The headers of one answer, and its body."""
        if reply.status == _NOT_MODIFIED:
            return reply.headers, b""
        length = (b"content-length", str(len(content)).encode())
        headers = [*reply.headers, *packed, (b"content-type", reply.media_type), length]
        return headers, b"" if self.scope["method"] == "HEAD" else content

    def _may_be_packed(self, content: bytes) -> bool:
        return len(content) >= SMALLEST_PACKED and self.call is not None

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


@dataclass(frozen=True, slots=True)
class AccessLine:
    """The fields of a line of the access log. It has no token, no parameter and no row."""

    request_id: str
    method: str
    route: str
    graph_id: str | None
    actor_id: str | None
    status: int
    seconds: float
    bytes_in: int
    bytes_out: int
    notes: Mapping[str, Any]

    def fields(self) -> dict[str, Any]:
        return {
            "request_id": self.request_id,
            "method": self.method,
            "route": self.route,
            "graph_id": self.graph_id,
            "actor_id": self.actor_id,
            "status": self.status,
            "ms": round(self.seconds * 1000, 2),
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            **self.notes,
        }


def is_logged() -> bool:
    """Whether requests have lines in the log."""
    return access.isEnabledFor(logging.INFO)


def log_access(line: AccessLine) -> None:
    access.info("request", extra={"fields": line.fields()})


def log_request(exchange: Exchange, seconds: float) -> None:
    """Write the line of a request that took so long, if there is a log."""
    if not is_logged():
        return
    call = exchange.call
    notes: dict[str, Any] = {}
    if call is not None:
        notes |= call.notes
        trace = call.header(b"traceparent")
        if trace is not None and len(trace) == _TRACEPARENT_LENGTH:
            notes["trace_id"] = trace[3:35]
    log_access(
        AccessLine(
            exchange.request_id,
            exchange.scope["method"],
            exchange.route,
            call.graph_id if call else None,
            call.actor if call else None,
            exchange.status,
            seconds,
            exchange.bytes_in,
            exchange.bytes_out,
            notes,
        )
    )


class _RequestIds:
    """ULIDs: 48 bits of milliseconds, 50 bits that a process draws once, and a count of 30 bits.

    They name requests, and are no secrets. They are made twenty times as fast as the ids of
    commits.
    """

    def __init__(self) -> None:
        self._count = random.getrandbits(_COUNT_BITS)
        self._process = _digits(random.getrandbits(_PROCESS_BITS), _PROCESS_SHIFTS)
        self._millis = 0
        self._head = ""

    def next(self) -> str:
        millis = time.time_ns() // 1_000_000
        if millis != self._millis:
            self._millis = millis
            self._head = _digits(millis, _TIME_SHIFTS) + self._process
        self._count = count = self._count + 1
        first, second, third = count >> 20 & 1023, count >> 10 & 1023, count & 1023
        return f"{self._head}{_PAIRS[first]}{_PAIRS[second]}{_PAIRS[third]}"


def _digits(number: int, shifts: range) -> str:
    return "".join([_PAIRS[number >> shift & 1023] for shift in shifts])


_request_ids = _RequestIds()


def request_id_of(headers: Sequence[tuple[bytes, bytes]]) -> str:
    """The id that the client gave, if it is one; else a new one."""
    for name, value in headers:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return bytes(value).decode()
    return _request_ids.next()


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

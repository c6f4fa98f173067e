"""Request bodies and query parameters: read within their limits, and decoded as the route says.

A long body is a file that a thread reads while the client still sends it. The thread asks for the
next bytes when it needs them. Until then uvicorn keeps one small buffer and stops reading from the
socket, so a long body takes no more memory than a short one.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Self
from urllib.parse import parse_qsl

import msgspec

from omnigraph.errors import ResourceLimit
from omnigraph.server.calls import Call
from omnigraph.server.compression import body_encoding, unpack, unpacking
from omnigraph.server.replies import Message, Receive, Refusal
from omnigraph.server.route_entry import RouteEntry

_FIRST_PART = 60
_HOP_BYTES = 512 * 1024
"""A thread waits for the event loop once for about so many bytes."""
_READ_BYTES = 1024 * 1024
_IDLE_SECONDS = 60.0
_LEFT_BYTES = 4 * 1024 * 1024
_LEFT_SECONDS = 1.0
_PATIENCE_SECONDS = 30.0
_SLOWEST_BYTES_PER_SECOND = 1024
"""A client that sends less, measured over the time that the server waits for it, is refused."""


async def read_body(call: Call, limit: int) -> bytes:
    """The whole body, decompressed; 0 is no limit."""
    encoding = body_encoding(call.header(b"content-encoding"))
    stated = call.header(b"content-length")
    try:
        if stated is not None and stated.isdecimal():
            _require_size(int(stated), limit)
        raw = await _received(call, limit)
    except ResourceLimit:
        call.closes_connection()
        raise
    if encoding is None:
        return raw
    loop = asyncio.get_running_loop()
    content = await loop.run_in_executor(call.state.reads, unpack, raw, encoding, limit)
    _require_size(len(content), limit)
    return content


async def _received(call: Call, limit: int) -> bytes:
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await call.receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "the client went away before the end of its body")
        part: bytes = message.get("body", b"")
        size += len(part)
        _require_size(size, limit)
        more = message.get("more_body", False)
        if not more and not parts:
            return part
        parts.append(part)
    return b"".join(parts)


def _require_size(size: int, limit: int) -> None:
    if limit and size > limit:
        raise too_large(size, limit)


@lru_cache(maxsize=256)
def _decoder(kind: type) -> Any:
    return msgspec.json.Decoder(kind)


def decode_body(call: Call, entry: RouteEntry) -> Any:
    """The body as the struct of the route."""
    assert entry.body is not None
    if entry.body_optional and call.raw.strip() in (b"", b"null"):
        return entry.body()
    media = (call.header(b"content-type") or "").partition(";")[0].strip().lower()
    if media != "application/json" and not media.endswith("+json"):
        named = f"not {media!r}" if media else "and the request names none"
        raise Refusal(415, f"the content type of this body is application/json, {named}")
    try:
        return _decoder(entry.body).decode(call.raw)
    except msgspec.ValidationError as error:
        raise Refusal(400, f"the body does not fit: {error}") from None
    except msgspec.DecodeError as error:
        raise Refusal(400, f"the body is not JSON: {error}") from None
    except UnicodeDecodeError as error:
        raise Refusal(400, f"the body is not UTF-8: {error.reason}") from None
    except RecursionError:
        raise Refusal(400, "the body is not JSON that can be read: nested too deeply") from None


@lru_cache(maxsize=256)
def _query_fields(kind: type) -> dict[str, bool]:
    """Names of the parameters, and whether one may be repeated."""
    found: dict[str, bool] = {}
    for field in msgspec.structs.fields(kind):
        origin = msgspec.inspect.type_info(field.type)
        options = origin.types if isinstance(origin, msgspec.inspect.UnionType) else (origin,)
        found[field.encode_name] = any(
            isinstance(option, msgspec.inspect.ListType) for option in options
        )
    return found


def decode_query(call: Call, entry: RouteEntry) -> Any:
    """The query parameters as the struct of the route."""
    if entry.query is None:
        return None
    fields = _query_fields(entry.query)
    given: dict[str, Any] = {}
    text = call.scope["query_string"]
    if text:
        try:
            pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict")
        except ValueError as error:
            raise Refusal(400, f"the query string cannot be read: {error}") from None
        for name, value in pairs:
            if name not in fields:
                if entry.strict_query:
                    raise Refusal(400, f"unknown query parameter {name[:_FIRST_PART]!r}")
                continue
            if fields[name]:
                given.setdefault(name, []).append(value)
            elif name in given:
                raise Refusal(400, f"the query parameter {name!r} is given twice")
            else:
                given[name] = value
    try:
        return msgspec.convert(given, entry.query, strict=False)
    except msgspec.ValidationError as error:
        raise Refusal(400, f"the query parameters do not fit: {error}") from None


def too_large(size: int, limit: int) -> ResourceLimit:
    """The refusal of a body of at least `size` bytes."""
    return ResourceLimit(
        f"the body has at least {size:,} bytes, and {limit:,} are allowed here",
        limit="request_body_bytes",
        needed_bytes=size,
        budget_bytes=limit,
    )


class BodyStream:
    """The content of one request body, decompressed and counted; 0 is no limit.

    It is made on the event loop, and its file is read by one thread at a time.
    """

    def __init__(self, call: Call, limit: int) -> None:
        stated = call.header(b"content-length")
        if limit and stated is not None and stated.isdecimal() and int(stated) > limit:
            raise too_large(int(stated), limit)
        encoding = body_encoding(call.header(b"content-encoding"))
        wire = _WireFile(call.receive, asyncio.get_running_loop(), limit)
        packed = wire if encoding is None else unpacking(io.BufferedReader(wire), encoding)
        self._wire = wire
        self._counted = _Counted(packed, limit)
        self.file: IO[bytes] = io.BufferedReader(self._counted, _READ_BYTES)

    @property
    def size(self) -> int:
        """Bytes of the content that were read so far."""
        return self._counted.size

    @property
    def received(self) -> int:
        """Bytes of the body as it was sent that were read so far."""
        return self._wire.size

    @property
    def fingerprint(self) -> str:
        """A hash of the content that was read so far."""
        return self._counted.digest.hexdigest()

    async def leave(self, call: Call) -> None:
        """Read a little of what is left; a client that has much more loses its connection.

        Most clients send all of a body before they read the answer, and would send for minutes.
        """
        if not await self._wire.ended_soon():
            call.closes_connection()

    def spooled(self, directory: str | None) -> Path:
        """The whole content in a file on local disk, for readers that go back and forth."""
        handle, name = tempfile.mkstemp(prefix="omnigraph-body-", dir=directory)
        path = Path(name)
        try:
            with os.fdopen(handle, "wb") as kept:
                while chunk := self.file.read(_READ_BYTES):
                    kept.write(chunk)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path

    def kept(self, directory: str | None) -> KeptBody:
        """The whole content on local disk, for work that goes on after the answer."""
        path = self.spooled(directory)
        return KeptBody(path, self.fingerprint, self.received)


class KeptBody:
    """A body that was received before its work begins; its file is removed at the end."""

    file: IO[bytes]

    def __init__(self, path: Path, fingerprint: str, received: int) -> None:
        self._path = path
        self.fingerprint = fingerprint
        self.received = received

    def __enter__(self) -> Self:
        self.file = self._path.open("rb")
        return self

    def __exit__(self, *exception: object) -> None:
        self.file.close()
        self.remove()

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)

    def spooled(self, directory: str | None) -> Path:
        return self._path


class _WireFile(io.RawIOBase):
    """The body as sent."""

    def __init__(self, receive: Receive, loop: asyncio.AbstractEventLoop, limit: int) -> None:
        self._receive = receive
        self._loop = loop
        self._limit = limit
        self._waiting = memoryview(b"")
        self._ended = False
        self._waited = 0.0
        self._recent = 0
        self.size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._waiting and not self._ended:
            asked = asyncio.run_coroutine_threadsafe(self._next(), self._loop)
            self._waiting = memoryview(asked.result())
        size = min(len(buffer), len(self._waiting))
        buffer[:size] = self._waiting[:size]
        self._waiting = self._waiting[size:]
        return size

    async def ended_soon(self) -> bool:
        """Whether the body ends within `_LEFT_BYTES` and `_LEFT_SECONDS`; what is left is lost."""
        left = 0
        try:
            async with asyncio.timeout(_LEFT_SECONDS):
                while not self._ended and left < _LEFT_BYTES:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        return True
                    left += len(message.get("body", b""))
                    self._ended = not message.get("more_body", False)
        except TimeoutError:
            return False
        return self._ended

    async def _next(self) -> bytes:
        """What has arrived, up to about `_HOP_BYTES`; runs on the event loop."""
        parts: list[bytes] = []
        gathered = 0
        while not self._ended and gathered < _HOP_BYTES:
            message = await self._received()
            if message["type"] == "http.disconnect":
                raise Refusal(400, "the client went away before the end of its body")
            part = message.get("body", b"")
            self._ended = not message.get("more_body", False)
            gathered += len(part)
            parts.append(part)
        self.size += gathered
        if self._limit and self.size > self._limit:
            raise too_large(self.size, self._limit)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _received(self) -> Message:
        """The next message. A client that is too slow would hold a write slot for nothing."""
        began = self._loop.time()
        try:
            async with asyncio.timeout(_IDLE_SECONDS):
                message = await self._receive()
        except TimeoutError:
            raise Refusal(408, f"no byte of the body came for {_IDLE_SECONDS:.0f} s") from None
        self._waited += self._loop.time() - began
        self._recent += len(message.get("body", b""))
        if self._waited >= _PATIENCE_SECONDS:
            if self._recent < self._waited * _SLOWEST_BYTES_PER_SECOND:
                raise Refusal(
                    408,
                    f"the body comes with less than {_SLOWEST_BYTES_PER_SECOND:,} bytes a second: "
                    "send it faster, or in smaller loads",
                )
            self._waited, self._recent = 0.0, 0
        return message


class _Counted(io.RawIOBase):
    """Counts and hashes the content, and ends when it is longer than allowed."""

    def __init__(self, opened: Any, limit: int) -> None:
        self._opened = opened
        self._limit = limit
        self.size = 0
        self.digest = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = int(self._opened.readinto(buffer) or 0)
        self.size += read
        if self._limit and self.size > self._limit:
            raise too_large(self.size, self._limit)
        self.digest.update(memoryview(buffer)[:read])
        return read

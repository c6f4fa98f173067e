"""An answer that is made while it is sent: a thread makes the next chunk when the client took one.

A chunk is made only after the last one was taken, so a slow client holds one chunk. When the client
goes away, the generator is closed at once, and with it everything that it holds.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field

from omnigraph.server.compression import VARY, is_compressible, packed_chunks
from omnigraph.server.replies import Headers, Receive, Scope, Send

CHUNK_BYTES = 64 * 1024
_LARGEST_CHUNK = 1024 * 1024


def gathered(chunks: Iterator[bytes], least: int = CHUNK_BYTES) -> Iterator[bytes]:
    """The same bytes in chunks of at least `least` bytes, except the last, and 1 MiB at most."""
    parts: list[bytes] = []
    size = 0
    try:
        for chunk in chunks:
            parts.append(chunk)
            size += len(chunk)
            if size >= least:
                whole = parts[0] if len(parts) == 1 else b"".join(parts)
                parts, size = [], 0
                for start in range(0, len(whole), _LARGEST_CHUNK):
                    yield whole[start : start + _LARGEST_CHUNK]
        if parts:
            yield b"".join(parts)
    finally:
        if hasattr(chunks, "close"):
            chunks.close()


class ChunkSource:
    """A generator of chunks that a pool of threads runs. It is closed once, by any thread."""

    def __init__(self, chunks: Iterator[bytes], pool: Executor) -> None:
        self._chunks = chunks
        self._pool = pool
        self._lock = threading.Lock()
        self._closed = False

    def next_now(self) -> bytes | None:
        """The next chunk, made by this thread; None at the end."""
        with self._lock:
            return None if self._closed else next(self._chunks, None)

    async def next(self) -> bytes | None:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self.next_now)

    def close(self) -> None:
        """Close the generator as soon as no thread runs it; does not wait for that."""
        self._pool.submit(self._close)

    def _close(self) -> None:
        with self._lock:
            self._closed = True
            if isinstance(self._chunks, Generator):
                self._chunks.close()


@dataclass(slots=True)
class StreamedReply:
    """The answer as ASGI. `first` was made before, so that failures until then have a status."""

    source: ChunkSource
    media_type: bytes
    headers: Headers = field(default_factory=list)
    first: bytes | None = None
    gone: Callable[[], None] = lambda: None
    """Called when the client goes away; it may stop the work of the generator."""
    status: int = 200

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", self.media_type), *self.headers]
        watch = asyncio.ensure_future(_gone(receive, self.gone))
        try:
            await send({"type": "http.response.start", "status": self.status, "headers": headers})
            chunk = self.first if self.first is not None else await self.source.next()
            while chunk is not None and not watch.done():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                chunk = await self.source.next()
            if not watch.done():
                await send({"type": "http.response.body", "body": b""})
        finally:
            watch.cancel()
            self.source.close()


@dataclass(frozen=True, slots=True)
class BodylessReply:
    """Headers as of an answer with a body, whose length they may name, without the body."""

    status: int
    headers: Headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"]
        # uvicorn compares the body with the stated length unless the request is a HEAD.
        scope["method"] = "HEAD"
        try:
            await send(
                {"type": "http.response.start", "status": self.status, "headers": self.headers}
            )
            await send({"type": "http.response.body", "body": b""})
        finally:
            scope["method"] = method


async def _gone(receive: Receive, tell: Callable[[], None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    tell()


def stream_reply(
    chunks: Iterator[bytes],
    pool: Executor,
    media_type: bytes,
    *,
    encoding: str | None = None,
    headers: Headers | None = None,
    gone: Callable[[], None] = lambda: None,
) -> StreamedReply:
    """A streamed answer with its first chunk, which this thread makes."""
    told: Headers = list(headers or [])
    if encoding is not None and is_compressible(media_type):
        chunks = packed_chunks(chunks, encoding)
        told += [(b"content-encoding", encoding.encode()), VARY]
    source = ChunkSource(chunks, pool)
    try:
        first = source.next_now()
    except BaseException:
        source.close()
        raise
    return StreamedReply(source, media_type, told, first if first is not None else b"", gone)

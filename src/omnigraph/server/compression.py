"""gzip and zstd, of whole bodies and of streams, both ways and in bounded memory."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from typing import IO, Any, cast

import pyarrow as pa

from omnigraph.server.negotiation import ENCODINGS, GZIP
from omnigraph.server.replies import Refusal

_GZIP_LEVEL = 1
_GZIP_FORMAT = 31
_IDENTITY = ("", "identity")
SMALLEST_PACKED = 4096
"""Smaller bodies are not compressed: it would cost more than it saves."""
VARY = (b"vary", b"accept-encoding")
_COMPRESSIBLE = (b"application/json", b"application/x-ndjson", b"text/")
"""Arrow is left out: numbers compress badly, and it is asked for because it is fast."""


def body_encoding(header: str | None) -> str | None:
    """The compression of a request body; None is none. Others are refused."""
    name = (header or "").strip().lower()
    if name in _IDENTITY:
        return None
    if name not in ENCODINGS:
        raise Refusal(
            415,
            f"the content encoding {name[:60]!r} is not known here: send gzip, zstd, or none",
            headers=[(b"accept-encoding", ", ".join(ENCODINGS).encode())],
        )
    return name


def unpack(raw: bytes, encoding: str, limit: int) -> bytes:
    """The content of a compressed body; at most one byte more than `limit` is made of it.

    The caller refuses a content that is longer than the limit; 0 is no limit.
    """
    try:
        with pa.CompressedInputStream(pa.BufferReader(raw), encoding) as opened:
            return bytes(opened.read(limit + 1) if limit else opened.read())
    except OSError as error:
        raise broken(encoding) from error


def unpacking(raw: Any, encoding: str) -> IO[bytes]:
    """A stream of the content of a compressed stream."""
    return cast("IO[bytes]", _Unpacked(raw, encoding))


def broken(encoding: str) -> Refusal:
    return Refusal(400, f"the body is not a whole {encoding} stream")


class _Unpacked(io.RawIOBase):
    """Errors of the compression become refusals; those of the raw stream pass as they are."""

    def __init__(self, raw: Any, encoding: str) -> None:
        self._encoding = encoding
        self._opened = pa.CompressedInputStream(pa.PythonFile(raw, "r"), encoding)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._opened.read(len(buffer))
        except OSError as error:
            raise broken(self._encoding) from error
        size = len(data)
        buffer[:size] = data
        return size


def is_compressible(media_type: bytes) -> bool:
    return media_type.startswith(_COMPRESSIBLE)


def pack(content: bytes, encoding: str) -> bytes:
    """A whole body, compressed."""
    return b"".join(packed_chunks(iter([content]), encoding))


def packed_chunks(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """The chunks as one compressed stream. Each chunk is sent whole, so that none waits."""
    try:
        yield from _gzip(chunks) if encoding == GZIP else _zstd(chunks)
    finally:
        if hasattr(chunks, "close"):
            chunks.close()


def _gzip(chunks: Iterator[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_FORMAT)
    for chunk in chunks:
        yield packer.compress(chunk) + packer.flush(zlib.Z_SYNC_FLUSH)
    yield packer.flush()


def _zstd(chunks: Iterator[bytes]) -> Iterator[bytes]:
    sink = _Sink()
    with pa.CompressedOutputStream(pa.PythonFile(sink, "w"), "zstd") as packer:
        for chunk in chunks:
            packer.write(chunk)
            packer.flush()
            yield sink.taken()
    yield sink.taken()


class _Sink(io.RawIOBase):
    """What was written since the last look. It can still be read after Arrow has closed it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def taken(self) -> bytes:
        written, self._parts = b"".join(self._parts), []
        return written

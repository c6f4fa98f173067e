"""gzip and zstd both ways, in bounded memory."""

from __future__ import annotations

import gzip
import io
import zlib

import pyarrow as pa
import pytest

from omnigraph.server.compression import (
    body_encoding,
    is_compressible,
    pack,
    packed_chunks,
    unpack,
    unpacking,
)
from omnigraph.server.replies import Refusal

TEXT = b"a line of text\n" * 5000


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


PACKED = {"gzip": gzip.compress(TEXT), "zstd": zstd(TEXT)}


@pytest.mark.parametrize("encoding", PACKED)
def test_bodies(encoding: str) -> None:
    packed = PACKED[encoding]
    assert unpack(packed, encoding, 0) == TEXT
    assert len(unpack(packed, encoding, 1000)) == 1001, "no more than is needed to refuse it"
    assert unpacking(io.BytesIO(packed), encoding).read() == TEXT
    assert unpack(pack(TEXT, encoding), encoding, 0) == TEXT
    for wrong in (packed[: len(packed) // 2], b"rubbish", packed + b"rubbish"):
        with pytest.raises(Refusal, match=f"not a whole {encoding} stream") as refused:
            unpack(wrong, encoding, 0)
        assert refused.value.status == 400
        with pytest.raises(Refusal, match=f"not a whole {encoding} stream"):
            unpacking(io.BytesIO(wrong), encoding).read()


def test_a_bomb_is_not_unpacked() -> None:
    bomb = zlib.compress(bytes(200_000_000), 9, wbits=31)
    assert len(bomb) < 300_000
    before = pa.total_allocated_bytes()
    assert len(unpack(bomb, "gzip", 1_000_000)) == 1_000_001
    assert pa.total_allocated_bytes() - before < 8_000_000


@pytest.mark.parametrize("encoding", PACKED)
def test_each_chunk_can_be_read_when_it_arrives(encoding: str) -> None:
    """A client of a feed must not wait for the next chunk to see this one."""
    stream = packed_chunks(iter([b"first", b"second"]), encoding)
    if encoding == "gzip":
        reader = zlib.decompressobj(31)
        assert [reader.decompress(next(stream)) for _ in range(2)] == [b"first", b"second"]
    else:
        assert len(next(stream)) > 0
        assert len(next(stream)) > 0
    closed = []

    def chunks():
        try:
            yield b"x"
        finally:
            closed.append(True)

    left = packed_chunks(chunks(), encoding)
    next(left)
    left.close()
    assert closed == [True]


def test_names() -> None:
    assert body_encoding(None) is None
    assert body_encoding("identity") is None
    assert body_encoding(" GZIP ") == "gzip"
    with pytest.raises(Refusal, match="'br' is not known") as refused:
        body_encoding("br")
    assert refused.value.status == 415
    assert is_compressible(b"application/x-ndjson; charset=utf-8")
    assert not is_compressible(b"application/octet-stream")

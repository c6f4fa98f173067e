"""A request body as a file that a thread reads."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import ResourceLimit
from omnigraph.server import bodies_in
from omnigraph.server.bodies_in import BodyStream
from omnigraph.server.replies import Refusal

PARTS = [b"one\n", b"two\n", b"", b"three\n"]
WHOLE = b"".join(PARTS)


class FakeCall:
    """A request whose body comes in parts. A part that is None means that the client went away."""

    def __init__(self, parts: list[bytes | None], **headers: str) -> None:
        self._parts = list(parts)
        self._headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.asked = 0

    def header(self, name: bytes) -> str | None:
        return self._headers.get(name.decode())

    async def receive(self) -> dict[str, Any]:
        self.asked += 1
        part = self._parts.pop(0) if self._parts else b""
        if part is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": part, "more_body": bool(self._parts)}


def read(call: FakeCall, limit: int = 0, work: Callable[[BodyStream], Any] | None = None) -> Any:
    async def run() -> Any:
        body = BodyStream(call, limit)  # type: ignore[arg-type]
        return await asyncio.to_thread(work or (lambda opened: opened.file.read()), body)

    return asyncio.run(run())


def test_the_content_is_counted_and_hashed() -> None:
    def work(body: BodyStream) -> tuple[bytes, int, int, str]:
        return body.file.read(), body.size, body.received, body.fingerprint

    digest = hashlib.sha256(WHOLE).hexdigest()
    assert read(FakeCall(list(PARTS)), work=work) == (WHOLE, len(WHOLE), len(WHOLE), digest)
    packed = gzip.compress(WHOLE)
    found = read(FakeCall([packed[:9], packed[9:]], content_encoding="gzip"), work=work)
    assert found == (WHOLE, len(WHOLE), len(packed), digest), "the hash is that of the content"


def test_a_long_body_is_refused_before_and_while_it_is_read() -> None:
    with pytest.raises(ResourceLimit, match="14 bytes, and 13 are allowed") as refused:
        read(FakeCall(list(PARTS), content_length="14"), 13)
    assert refused.value.fields["limit"] == "request_body_bytes"
    call = FakeCall([bytes(bodies_in._HOP_BYTES)] * 50)
    with pytest.raises(ResourceLimit, match="and 1,000,000 are allowed"):
        read(call, 1_000_000)
    assert call.asked == 2, "the rest was never asked for"
    packed = gzip.compress(bytes(5_000_000))
    with pytest.raises(ResourceLimit, match="and 100,000 are allowed"):
        read(FakeCall([packed], content_encoding="gzip"), 100_000)


def test_a_client_that_goes_away_is_no_end_of_the_body() -> None:
    with pytest.raises(Refusal, match="went away"):
        read(FakeCall([b"one\n", None]))
    packed = gzip.compress(WHOLE)
    with pytest.raises(Refusal, match="went away"):
        read(FakeCall([packed[:9], None], content_encoding="gzip"))
    with pytest.raises(Refusal, match="not a whole gzip"):
        read(FakeCall([packed[:-4]], content_encoding="gzip"))


def test_bytes_are_asked_for_when_they_are_needed() -> None:
    call = FakeCall([bytes(bodies_in._HOP_BYTES)] * 50)

    def first_bytes(body: BodyStream) -> int:
        body.file.read(10)
        return call.asked

    assert read(call, work=first_bytes) <= 2, "the rest waits in the client"


def test_a_client_that_is_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    class SlowCall(FakeCall):
        async def receive(self) -> dict[str, Any]:
            await asyncio.sleep(0.02)
            return await super().receive()

    monkeypatch.setattr(bodies_in, "_PATIENCE_SECONDS", 0.05)
    with pytest.raises(Refusal, match="bytes a second") as refused:
        read(SlowCall([b"x"] * 20))
    assert refused.value.status == 408
    assert read(SlowCall([bytes(1000)] * 6)) == bytes(6000)
    monkeypatch.setattr(bodies_in, "_IDLE_SECONDS", 0.01)
    with pytest.raises(Refusal, match="no byte of the body came"):
        read(SlowCall([b"x"]))


def test_a_spooled_body(tmp_path: Path) -> None:
    def work(body: BodyStream) -> bytes:
        with body.kept(str(tmp_path)) as kept:
            assert kept.spooled(None).read_bytes() == WHOLE
            assert kept.fingerprint == hashlib.sha256(WHOLE).hexdigest()
            return kept.file.read()

    assert read(FakeCall(list(PARTS)), work=work) == WHOLE
    with pytest.raises(Refusal):
        read(FakeCall([b"one\n", None]), work=lambda body: body.kept(str(tmp_path)))
    assert list(tmp_path.iterdir()) == []

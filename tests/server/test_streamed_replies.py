"""Answers that are made while they are sent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from omnigraph.server.streamed_replies import BodylessReply, gathered, stream_reply


class Client:
    """Takes so many messages, then stops reading or goes away."""

    def __init__(self, takes: int = 1000, *, leaves: bool = False) -> None:
        self.sent: list[dict[str, Any]] = []
        self._takes = takes
        self._leaves = leaves
        self._gone = asyncio.Event()

    async def send(self, message: Any) -> None:
        if len(self.sent) >= self._takes:
            if self._leaves:
                self._gone.set()
                await asyncio.sleep(0)
                return
            await asyncio.Event().wait()
        self.sent.append(dict(message))

    async def receive(self) -> dict[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


class Made:
    """Chunks that are counted, and whether their generator was closed."""

    def __init__(self, count: int) -> None:
        self.made = 0
        self.closed = threading.Event()
        self._count = count

    def chunks(self) -> Iterator[bytes]:
        try:
            for _ in range(self._count):
                self.made += 1
                yield b"x" * 1000
        finally:
            self.closed.set()


def test_a_whole_stream(pool: ThreadPoolExecutor) -> None:
    made = Made(5)

    async def run() -> Client:
        client = Client()
        reply = stream_reply(made.chunks(), pool, b"text/plain", headers=[(b"etag", b"x")])
        assert made.made == 1, "the first chunk is made before the status is sent"
        await reply({}, client.receive, client.send)
        return client

    client = asyncio.run(run())
    assert client.sent[0]["headers"] == [(b"content-type", b"text/plain"), (b"etag", b"x")]
    assert client.body == b"x" * 5000
    assert made.closed.wait(5)


def test_a_slow_client_holds_one_chunk(pool: ThreadPoolExecutor) -> None:
    made = Made(1000)

    async def run() -> None:
        client = Client(takes=3)
        reply = stream_reply(made.chunks(), pool, b"text/plain")
        sending = asyncio.ensure_future(reply({}, client.receive, client.send))
        await asyncio.sleep(0.2)
        assert made.made <= 4
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

    asyncio.run(run())
    assert made.closed.wait(5), "also a cancelled stream is closed"


def test_a_client_that_goes_away_ends_the_work(pool: ThreadPoolExecutor) -> None:
    made = Made(100_000)
    told = []

    async def run() -> None:
        client = Client(takes=3, leaves=True)
        reply = stream_reply(made.chunks(), pool, b"text/plain", gone=lambda: told.append("gone"))
        await reply({}, client.receive, client.send)

    asyncio.run(run())
    assert made.closed.wait(5)
    assert made.made < 100
    assert told == ["gone"]


def test_a_failure_of_the_first_chunk_is_raised_before_anything_is_sent(
    pool: ThreadPoolExecutor,
) -> None:
    def chunks() -> Iterator[bytes]:
        raise ValueError("no such state")
        yield b""

    with pytest.raises(ValueError, match="no such state"):
        stream_reply(chunks(), pool, b"text/plain")


def test_small_chunks_are_gathered_and_large_ones_cut() -> None:
    assert list(gathered(iter([b"a"] * 10), 4)) == [b"aaaa", b"aaaa", b"aa"]
    sizes = [len(chunk) for chunk in gathered(iter([bytes(2_500_000), b"x"]))]
    assert sizes == [1048576, 1048576, 402848, 1]
    made = Made(10)
    left = gathered(made.chunks(), 10)
    next(left)
    left.close()  # type: ignore[attr-defined]
    assert made.closed.is_set()


def test_a_reply_without_its_body_leaves_the_request_as_it_was() -> None:
    async def run() -> tuple[Client, dict[str, Any]]:
        client, scope = Client(), {"method": "GET"}
        await BodylessReply(304, [(b"content-length", b"10")])(scope, client.receive, client.send)
        return client, scope

    client, scope = asyncio.run(run())
    assert [message.get("status") for message in client.sent] == [304, None]
    assert (client.body, scope) == (b"", {"method": "GET"})

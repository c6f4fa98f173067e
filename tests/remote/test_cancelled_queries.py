"""A query on a server ends when its caller calls it off, and so does the work of the server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

import omnigraph
from omnigraph import aio
from omnigraph_testing.http_server import ThreadServer, wait_until

PEOPLE = 400
TRAILS = (
    'query q() { match { $p: Person { name: "n0000" } $t = $p knows{1,30} $f } '
    "return { count($f) as n } }"
)
"""Twelve ways at each of thirty hops: this would not end by itself."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadServer]:
    uri = tmp_path_factory.mktemp("crowd") / "crowd.omni"
    names = [f"n{i:04}" for i in range(PEOPLE)]
    ends = [(i, (i * 7 + step) % PEOPLE) for i in range(PEOPLE) for step in range(12)]
    schema = "node Person { name: String @key }\nedge Knows: Person -> Person"
    with omnigraph.init(uri, schema) as graph:
        people = [{"name": name} for name in names]
        knows = [{"from": names[a], "to": names[b]} for a, b in ends]
        graph.apply({"Person": {"insert": people}, "Knows": {"insert": knows}})
    with ThreadServer({"crowd": str(uri)}) as opened:
        yield opened


def running(server: ThreadServer) -> int:
    return server.state.admission.inflight["read"]


def test_another_thread_calls_a_query_off(server: ThreadServer) -> None:
    with omnigraph.open(f"{server.url}/graphs/crowd") as graph:
        cancel = threading.Event()
        threading.Timer(0.3, cancel.set).start()
        with pytest.raises(omnigraph.ResourceLimit) as stopped:
            graph.query(TRAILS, cancel=cancel)
        assert stopped.value.limit == "cancelled"
        wait_until(lambda: running(server) == 0)
        with pytest.raises(omnigraph.ResourceLimit):
            graph.query(TRAILS, cancel=cancel)
        not_set = threading.Event()
        text = "match { $p: Person } return { count($p) as n }"
        assert graph.query(text, cancel=not_set)[0] == {"n": PEOPLE}


def test_a_query_stops_at_its_deadline(server: ThreadServer) -> None:
    with omnigraph.open(f"{server.url}/graphs/crowd") as graph:
        with pytest.raises(omnigraph.ResourceLimit) as late:
            graph.query(TRAILS, timeout=0.2)
        assert late.value.limit == "timeout"


def test_a_cancelled_task_stops_the_server(server: ThreadServer) -> None:
    async def work() -> None:
        async with await aio.open(f"{server.url}/graphs/crowd") as graph:
            task = asyncio.create_task(graph.query(TRAILS))
            while not running(server):
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(work())
    wait_until(lambda: running(server) == 0)

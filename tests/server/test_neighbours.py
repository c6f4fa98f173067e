"""Slow, silent and greedy clients: the others do not notice them."""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Iterator

import httpx
import pytest

from omnigraph_testing.http_server import ThreadServer, wait_until
from omnigraph_testing.workloads import create_small_graph, settings

READ = {"query": "match { $p: Person } return { count($p) as n }"}
IDLE = 1000
# Twelve ways at each of thirty hops: it would not end.
LONG = {
    "query": 'match { $p: Person { name: "p0" } $t = $p knows{1,30} $f } return { count($f) as n }'
}
PEOPLE = 100


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadServer]:
    uri = str(tmp_path_factory.mktemp("crowded") / "graph.omni")
    graph = create_small_graph(uri)
    ends = [(f"p{i}", f"p{(i * 7 + step) % PEOPLE}") for i in range(PEOPLE) for step in range(12)]
    graph.apply(
        {
            "Person": {"insert": [{"name": f"p{i}", "age": i} for i in range(PEOPLE)]},
            "Knows": {"insert": [{"from": a, "to": b} for a, b in ends]},
        }
    )
    graph.close()
    with ThreadServer(uri, engine=settings()) as server:
        yield server


def connect(server: ThreadServer) -> socket.socket:
    host, _, port = server.url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def is_prompt(http: httpx.Client) -> bool:
    began = time.monotonic()
    answer = http.post("/query", json=READ)
    assert answer.status_code == 200, answer.text
    return time.monotonic() - began < 5


def test_idle_connections_and_clients_that_drip(crowded: ThreadServer) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * IDLE)), hard))
    held = [connect(crowded) for _ in range(IDLE)]
    try:
        for dripping in held[:20]:
            dripping.sendall(b"POST /graphs/default/query HTTP/1.1\r\nHost: x\r\nContent-Le")
        for number, dripping in enumerate(held[20:40]):
            head = "POST /graphs/default/query HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n"
            dripping.sendall(head.encode() + b"{" * (number + 1))
        with crowded.graph_client() as http:
            assert all(is_prompt(http) for _ in range(5))
            for dripping in held[20:40]:
                dripping.sendall(b"x")
            assert is_prompt(http)
    finally:
        for connection in held:
            connection.close()


def test_a_long_read_ends_when_its_client_goes(crowded: ThreadServer) -> None:
    admission = crowded.state.admission

    def ask() -> None:
        with crowded.graph_client() as client, pytest.raises(httpx.ReadTimeout):
            client.post("/query", json=LONG, timeout=1.0)

    reader = threading.Thread(target=ask)
    reader.start()
    wait_until(lambda: admission.inflight["read"] == 1)
    with crowded.graph_client() as http:
        assert is_prompt(http)
    reader.join()
    wait_until(lambda: admission.inflight["read"] == 0)  # the work stopped, not only the answer


def test_a_long_read_ends_at_its_deadline(crowded: ThreadServer) -> None:
    with crowded.graph_client() as http:
        late = http.post("/query", json={**LONG, "timeout_ms": 300})
    assert late.status_code == 503, late.text
    assert late.json()["unavailable"] == {"reason": "deadline"}
    assert "retry-after" not in late.headers

"""Slow, silent and greedy clients: the others do not notice them."""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Iterator

import httpx
import pytest

from omnigraph_testing.http_server import ProcessServer, ThreadServer, wait_until
from omnigraph_testing.workloads import create_small_graph, settings

READ = {"query": "match { $p: Person } return { count($p) as n }"}
IDLE = 1000
# Twelve ways at each of thirty hops: it would not end.
LONG = {
    "query": 'match { $p: Person { name: "p0" } $t = $p knows{1,30} $f } return { count($f) as n }'
}
WALK = {
    "query": "query walk($name: String) { match { $p: Person { name: $name } "
    "$t = $p knows{1,30} $f } return { count($f) as n } }"
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


def connect(server: ThreadServer | ProcessServer) -> socket.socket:
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


def test_a_read_that_was_fast_with_other_parameters(
    crowded: ThreadServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins on the event loop, where all others would wait for it."""
    monkeypatch.setattr("omnigraph.server.application._INLINE_SECONDS", 60.0)
    admission = crowded.state.admission
    with crowded.graph_client() as http:
        for number in range(5):
            answer = http.post("/query", json={**WALK, "params": {"name": f"nobody {number}"}})
            assert answer.json()["rows"] == [{"n": 0}]

    def ask() -> None:
        with crowded.graph_client() as client, pytest.raises(httpx.ReadTimeout):
            client.post("/query", json={**WALK, "params": {"name": "p0"}}, timeout=2.0)

    reader = threading.Thread(target=ask)
    reader.start()
    wait_until(lambda: admission.inflight["read"] == 1)
    with crowded.graph_client() as http:
        assert is_prompt(http)
    reader.join()
    wait_until(lambda: admission.inflight["read"] == 0)
    with crowded.graph_client() as http:
        late = http.post("/query", json={**WALK, "params": {"name": "p1"}, "timeout_ms": 200})
        assert late.json()["unavailable"] == {"reason": "deadline"}


def test_a_server_takes_more_connections_than_its_shell_allows(uri: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < IDLE:
        pytest.skip("this machine allows few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        server = ProcessServer(uri, "--unauthenticated").__enter__()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, IDLE), hard))
    held = []
    try:
        held = [connect(server) for _ in range(400)]
        with server.graph_client() as http:
            assert is_prompt(http)
    finally:
        for connection in held:
            connection.close()
        server.stop()

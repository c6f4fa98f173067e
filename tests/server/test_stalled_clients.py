"""Clients that stop in the middle of a request or of an answer, or leave with requests in line."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from omnigraph.server import http_protocol, serving
from omnigraph.server.routes import feeds
from omnigraph_testing.http_server import ProcessServer, ThreadServer, wait_until
from omnigraph_testing.workloads import create_small_graph, settings

HOST = b"Host: x\r\n"
NOTES, TEXT = 4000, "x" * 3000
LONG = {
    "query": 'match { $p: Person { name: "p0" } $t = $p knows{1,30} $f } return { count($f) as n }'
}
PEOPLE = 60


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    """12 MB of notes, which no buffer takes, and a crowd in which a long walk does not end."""
    uri = str(tmp_path_factory.mktemp("stalled") / "graph.omni")
    ends = [(f"p{i}", f"p{(i * 7 + step) % PEOPLE}") for i in range(PEOPLE) for step in range(12)]
    with create_small_graph(uri) as graph:
        graph.apply(
            {
                "Note": {"insert": [{"id": f"n-{n}", "text": TEXT} for n in range(NOTES)]},
                "Person": {"insert": [{"name": f"p{i}", "age": i} for i in range(PEOPLE)]},
                "Knows": {"insert": [{"from": a, "to": b} for a, b in ends]},
            }
        )
    return uri


@pytest.fixture
def server(large: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadServer]:
    """Its patience is short."""
    monkeypatch.setattr(http_protocol, "_SLOWEST_REQUEST_SECONDS", 0.5)
    monkeypatch.setattr(http_protocol, "_SILENT_SECONDS", 0.5)
    monkeypatch.setattr(http_protocol, "_STALLED_SECONDS", 0.5)
    monkeypatch.setattr(serving, "_CONNECTIONS_EVERY_SECONDS", 0.1)
    with ThreadServer(large, engine=settings()) as running:
        yield running


def connect(server: ThreadServer | ProcessServer) -> socket.socket:
    host, _, port = server.url.removeprefix("http://").partition(":")
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    opened.settimeout(30)
    opened.connect((host, int(port)))
    return opened


def post(path: str, body: object) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST /graphs/default{path} HTTP/1.1\r\nContent-Type: application/json\r\n"
    return head.encode() + HOST + f"Content-Length: {len(content)}\r\n\r\n".encode() + content


def everything(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /graphs/default/query HTTP/1.1\r\nHost: x\r\nContent-Le",
        post("/query", {"query": "match { $p: Person } return { $p.name }"})[:-3],
    ],
    ids=["headers", "body"],
)
def test_a_request_that_does_not_arrive_is_refused(server: ThreadServer, sent: bytes) -> None:
    with connect(server) as connection:
        connection.sendall(sent)
        head, _, body = everything(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert json.loads(body)["error"].startswith("the request took more than")
    assert json.loads(body)["request_id"].encode() in head


def test_bytes_that_drip_do_not_help(server: ThreadServer) -> None:
    with connect(server) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        began = time.monotonic()
        while time.monotonic() - began < 20:
            try:
                connection.sendall(b"x")
            except OSError:
                return
            time.sleep(0.05)
    pytest.fail("the connection was kept")


@pytest.mark.parametrize(
    "sent", [b"", post("/mutate", {"query": "insert Note"})[:-3]], ids=["nothing", "a write"]
)
def test_a_silent_client_is_gone(server: ThreadServer, sent: bytes) -> None:
    with connect(server) as connection:
        connection.sendall(sent)
        with suppress(ConnectionResetError):
            assert everything(connection) == b""
    wait_until(lambda: not server.worker.server_state.connections)


def test_an_idle_connection_is_kept(server: ThreadServer) -> None:
    """Proxies send the next request on it, and a refused connection would be an error of theirs."""
    ask = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"
    with connect(server) as connection:
        for _ in range(2):
            connection.sendall(ask)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
            time.sleep(1.0)
        connection.sendall(ask)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_a_reader_that_stops_loses_its_export(server: ThreadServer) -> None:
    inflight = server.state.admission.inflight
    with connect(server) as connection:
        connection.sendall(post("/export", {}))
        wait_until(lambda: inflight["stream"] == 1)
        wait_until(lambda: inflight["stream"] == 0)
        wait_until(lambda: not server.worker.server_state.connections)


def test_a_listener_that_stops_loses_its_events(server: ThreadServer) -> None:
    with connect(server) as connection:
        path = b"GET /graphs/default/changes?start=beginning HTTP/1.1\r\n"
        connection.sendall(path + HOST + b"Accept: text/event-stream\r\n\r\n")
        wait_until(lambda: feeds._EventStream.listeners == 1)
        wait_until(lambda: feeds._EventStream.listeners == 0)
        wait_until(lambda: not server.worker.server_state.connections)


def test_an_answer_that_is_not_taken_is_given_up(server: ThreadServer) -> None:
    asked = {"query": "match { $n: Note } return { $n.text as text } limit 4000"}
    with connect(server) as connection:
        connection.sendall(post("/query", asked))
        assert connection.recv(12) == b"HTTP/1.1 200"
        wait_until(lambda: not server.worker.server_state.connections)


HEALTH = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"


@pytest.mark.parametrize("path", ["/export", "/query"])
def test_a_client_that_leaves_with_requests_in_line_ends_the_first(large: str, path: str) -> None:
    """The second request waits behind the first, and it is the first that costs something."""
    kind = "stream" if path == "/export" else "read"
    with ThreadServer(large, engine=settings()) as server:
        inflight = server.state.admission.inflight
        body = {} if path == "/export" else LONG
        connection = connect(server)
        connection.sendall(post(path, body) + HEALTH)
        wait_until(lambda: inflight[kind] == 1)
        connection.close()
        wait_until(lambda: inflight[kind] == 0, 10)


def test_a_listener_that_leaves_with_requests_in_line_is_counted_no_longer(large: str) -> None:
    with ThreadServer(large, engine=settings()) as server:
        connection = connect(server)
        path = b"GET /graphs/default/changes HTTP/1.1\r\n"
        connection.sendall(path + HOST + b"Accept: text/event-stream\r\n\r\n" + HEALTH)
        wait_until(lambda: feeds._EventStream.listeners == 1)
        connection.close()
        wait_until(lambda: feeds._EventStream.listeners == 0, 10)


def test_a_server_ends_without_the_rest_of_a_read(uri: str, tmp_path: Path) -> None:
    """Anybody can begin a request; the end of the server must not depend on them."""
    with (
        ProcessServer(uri, "--unauthenticated", log=tmp_path / "log") as server,
        connect(server) as begun,
        server.client() as client,
    ):
        begun.sendall(post("/query", LONG)[:-3])
        assert client.get("/healthz").status_code == 200
        began = time.monotonic()
        assert server.stop() == 0, server.log_text()
        assert time.monotonic() - began < 15

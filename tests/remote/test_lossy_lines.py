"""A real server behind a line that loses answers: what was done once stays done once."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph
from omnigraph import ClientSettings, Settings
from omnigraph_testing.http_server import ThreadServer

SCHEMA = "node Person { name: String @key  n: I64? }"
COUNT = "match { $p: Person } return { count($p) as people }"


class LossyLine:
    """Passes requests on to a server, and drops the answers of the next few of them."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self._server = (host, int(port))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.losses = 0
        self.passed = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """One request and its answer; then the connection ends."""
        with client, socket.create_connection(self._server) as server:
            request = client.recv(1 << 20).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
            server.sendall(request)
            while _body_is_missing(request):
                more = client.recv(1 << 20)
                request += more
                server.sendall(more)
            answer = b""
            while chunk := server.recv(1 << 20):
                answer += chunk
            if self.losses > 0:
                self.losses -= 1
                return
            self.passed += 1
            client.sendall(answer)

    def close(self) -> None:
        self._listening.close()


def _body_is_missing(request: bytes) -> bool:
    head, _, body = request.partition(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return len(body) < int(line.partition(b":")[2])
        if line.startswith(b"transfer-encoding:"):
            return not body.endswith(b"0\r\n\r\n")
    return False


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LossyLine]:
    uri = tmp_path_factory.mktemp("lossy") / "people.omni"
    omnigraph.init(uri, SCHEMA).close()
    with ThreadServer({"people": str(uri)}) as server:
        opened = LossyLine(server.url)
        yield opened
        opened.close()


@pytest.fixture
def graph(line: LossyLine) -> Iterator[omnigraph.Graph]:
    settings = Settings(client=ClientSettings(attempts=4))
    with omnigraph.open(f"{line.url}/graphs/people", settings=settings) as opened:
        yield opened
    line.losses = 0


def test_every_write_is_done_once(line: LossyLine, graph: omnigraph.Graph, tmp_path: Path) -> None:
    data = tmp_path / "more.ndjson"
    data.write_text('{"type": "Person", "data": {"name": "Loaded"}}\n')

    def commits() -> int:
        return len(graph.commits.list(limit=None))

    before = commits()
    line.losses = 1
    made = graph.mutate('insert Person { name: "Ada", n: 1 }')
    line.losses = 2
    loaded = graph.load(data)
    line.losses = 1
    applied = graph.apply({"Person": {"upsert": [{"name": "Ada", "n": 2}]}})
    assert made.commit is not None
    assert loaded.commit is not None
    assert applied.commit is not None
    assert commits() == before + 3
    assert graph.commits.show(made.commit.graph_commit_id) == made.commit
    line.losses = 1
    assert graph.branches.create("x").name == "x"
    line.losses = 1
    assert graph.tags.create("v1").name == "v1"
    line.losses = 1
    assert graph.branches.rename("x", "y").repeated
    line.losses = 1
    assert graph.branches.delete("y")
    assert commits() == before + 3
    line.losses = 3
    assert graph.query(COUNT)[0] == {"people": 2}


def test_an_outcome_that_stays_unknown_can_be_looked_up(
    line: LossyLine, graph: omnigraph.Graph
) -> None:
    line.losses = 4
    with pytest.raises(omnigraph.OutcomeUnknown) as unknown:
        graph.mutate('insert Person { name: "Bob" }')
    key = unknown.value.idempotency_key
    assert key is not None
    (commit,) = graph.commits.by_key(key)
    again = graph.mutate('insert Person { name: "Bob" }', idempotency_key=key)
    assert (again.repeated, again.commit) == (True, commit)
    with pytest.raises(omnigraph.IdempotencyConflict):
        graph.mutate('insert Person { name: "Other" }', idempotency_key=key)


def test_an_answer_that_breaks_off_is_an_error(line: LossyLine, graph: omnigraph.Graph) -> None:
    line.losses = 9
    with pytest.raises(omnigraph.ServerUnavailable):
        graph.branches.list()
    line.losses = 0
    assert [branch.name for branch in graph.branches.list()] == ["main"]

"""The server as processes: ready line, slow end, several workers, workers that die."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

import omnigraph
from omnigraph import failpoints
from omnigraph.server import supervisor
from omnigraph.server.configuration import ServerSettings
from omnigraph.settings.models import Settings
from omnigraph_testing.http_server import ProcessServer, wait_until
from omnigraph_testing.invariants import assert_at_rest

INSERT = "query add($name: String) { insert Person { name: $name } }"
WRITES = 18
KEYED_CLIENTS, CLIENTS_OF_GROUPS = 6, 24
POINTS_OF_EACH_WRITE = ("group.after_stage", "group.after_advance_first", "group.after_member")
FORK_POINTS = ("commit.after_fork_branch", "commit.after_fork_publish")
"""Each branch visits them once, at the first write of a type."""
SLOW_FAILPOINT = {"OMNIGRAPH_FAILPOINTS": "commit.before_publish=sleep:2"}


def insert(
    client: httpx.Client, name: str, key: str | None = None, branch: str = "main"
) -> httpx.Response:
    headers = {"Idempotency-Key": key} if key else {}
    body = {"query": INSERT, "params": {"name": name}, "branch": branch}
    return client.post("/mutate", json=body, headers=headers)


def test_a_worker_that_starts_while_the_server_ends_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker has died, and the signal comes while another one is started."""
    with socket.socket() as bound:
        serving = supervisor._Supervisor({}, ServerSettings(workers=2), Settings(), bound, {})

        class Interrupted(subprocess.Popen[bytes]):
            def __init__(self, *_: object, **__: object) -> None:
                super().__init__([sys.executable, "-c", "import time; time.sleep(60)"])
                serving._end(signal.SIGTERM)

        monkeypatch.setattr(supervisor.subprocess, "Popen", Interrupted)
        serving._start(Path())
        (child,) = serving._children
        assert child.process.wait(30) == -signal.SIGTERM
        os.close(child.pipe)


def test_a_draining_server_finishes_what_it_began(uri: str, tmp_path: Path) -> None:
    """Acceptance check 6, in time: /readyz 503, /healthz 200, the write ends, exit 0."""
    serving = ProcessServer(
        uri, "--unauthenticated", environment=SLOW_FAILPOINT, log=tmp_path / "log"
    )
    with serving as server, server.client() as client, server.graph_client() as graph:
        assert client.get("/readyz").json()["ready"] is True
        answers: list[httpx.Response] = []
        writer = threading.Thread(target=lambda: answers.append(insert(graph, "zoe")))
        writer.start()
        wait_until(lambda: "write" in client.get("/metrics").text and _writes(client) == 1)
        assert server.process is not None
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: client.get("/readyz").status_code == 503)
        assert client.get("/readyz").json()["status"] == "draining"
        assert client.get("/healthz").status_code == 200
        writer.join()
        assert answers[0].status_code == 200, answers[0].text
        assert server.stop() == 0, server.log_text()
    with omnigraph.open(uri) as found:
        assert "zoe" in found.read("Person")["name"].to_pylist()
        assert_at_rest(found)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_draining_server_refuses_connections_when_it_accepts_no_more(
    uri: str, tmp_path: Path, workers: str
) -> None:
    """A connection that no worker takes would wait for the slowest request, and then be lost."""
    arguments = (uri, "--unauthenticated", "--workers", workers)
    slow = {"OMNIGRAPH_FAILPOINTS": "commit.before_publish=sleep:8"}
    serving = ProcessServer(*arguments, environment=slow, log=tmp_path / "log")
    with serving as server, server.client() as client, server.graph_client() as graph:
        answers: list[httpx.Response] = []
        writer = threading.Thread(target=lambda: answers.append(insert(graph, "zoe")))
        writer.start()
        wait_until(lambda: _writes(client) == 1)
        assert server.process is not None
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: _is_refused(server))
        assert answers == [], "the write is still in flight"
        writer.join()
        assert answers[0].status_code == 200, answers[0].text
        assert server.stop() == 0, server.log_text()


def _is_refused(server: ProcessServer) -> bool:
    with socket.socket() as connection:
        connection.settimeout(0.5)
        return connection.connect_ex((httpx.URL(server.url).host, httpx.URL(server.url).port)) != 0


def _writes(client: httpx.Client) -> float:
    lines = client.get("/metrics").text.splitlines()
    found = [line for line in lines if line.startswith('omnigraph_http_inflight{kind="write"}')]
    return float(found[0].split()[1])


def test_a_drain_ends_at_its_deadline(uri: str, tmp_path: Path) -> None:
    slow = {"OMNIGRAPH_FAILPOINTS": "commit.before_publish=sleep:30"}
    arguments = (uri, "--unauthenticated", "--shutdown-grace-seconds", "1")
    serving = ProcessServer(*arguments, environment=slow, log=tmp_path / "log")
    with serving as server, server.client() as client, server.graph_client() as graph:

        def write() -> None:
            with pytest.raises(httpx.TransportError):
                insert(graph, "never")

        writer = threading.Thread(target=write)
        writer.start()
        wait_until(lambda: _writes(client) == 1)
        assert server.stop() == 2, server.log_text()
        writer.join()


def test_several_workers_are_one_server(uri: str, tmp_path: Path) -> None:
    """They see each other's commits, count together, and are replaced when they die."""
    environment = {"OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": "4"}
    arguments = (uri, "--unauthenticated", "--workers", "2")
    serving = ProcessServer(*arguments, environment=environment, log=tmp_path / "log")
    with serving as server:
        workers = set(server.workers())
        assert len(workers) == 2
        for number in range(4):  # a connection each, so that both workers get some
            with server.graph_client() as graph:
                assert insert(graph, f"p{number}").status_code == 200
            with server.graph_client() as graph:
                rows = graph.post("/query", json={"query": COUNT}).json()["rows"]
                assert rows == [{"people": 3 + number}]
        _check_key_over_workers(server)
        # A request is counted after its last byte, so the count may come after the answer.
        wait_until(lambda: _counted_requests(server) == 8 + KEYED)
        os.kill(workers.pop(), signal.SIGKILL)
        wait_until(lambda: len(set(server.workers()) - workers) == 1)
        with server.client() as client:
            wait_until(lambda: client.get("/readyz").status_code == 200)
        assert _counted_requests(server) == 8 + KEYED
        assert server.stop() == 0, server.log_text()


def test_a_limit_of_an_actor_holds_over_the_workers(uri: str, tmp_path: Path) -> None:
    """Of 12 writes at once, two are admitted, in whichever worker."""
    environment = {
        "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": "2",
        "OMNIGRAPH_FAILPOINTS": "commit.after_stage=sleep:2,group.after_stage=sleep:2",
    }
    arguments = (uri, "--unauthenticated", "--workers", "2")
    serving = ProcessServer(*arguments, environment=environment, log=tmp_path / "log")
    with serving as server, ExitStack() as stack, ThreadPoolExecutor(12) as pool:
        clients = [stack.enter_context(server.graph_client()) for _ in range(12)]
        for client in clients:  # connected before, so that the writes come at once
            assert client.get("/branches").status_code == 200
        answers = list(pool.map(lambda client: insert(client, "limited"), clients))
        refused = [answer for answer in answers if answer.status_code == 429]
        assert [answer.status_code for answer in answers].count(200) == 2
        assert len(refused) == 10
        assert all(answer.json()["code"] == "too_many_requests" for answer in refused)
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
        assert insert(clients[0], "afterwards").status_code == 200
        wait_until(
            lambda: 'admission_rejected_total{reason="' in client.get(f"{server.url}/metrics").text
        )


KEYED = 6


def _counted_requests(server: ProcessServer) -> float:
    """The POST requests to the graph, as the metrics of all workers count them."""
    counted = 'omnigraph_http_requests_total{graph="default",method="POST",'
    with server.client() as client:
        lines = client.get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(counted))


def _check_key_over_workers(server: ProcessServer) -> None:
    """One commit for a key, whichever worker gets the request, and for no other branch."""
    commits = set()
    for number in range(KEYED):
        with server.graph_client() as graph:
            if number == KEYED - 1:
                body = {"query": INSERT, "params": {"name": "keyed"}, "branch": "nowhere"}
                other = graph.post("/mutate", json=body, headers={"Idempotency-Key": "one"})
                assert other.status_code == 409, other.text
                assert other.json()["idempotency_conflict"] == {"key": "one"}
            else:
                commits.add(insert(graph, "keyed", key="one").json()["commit"]["graph_commit_id"])
    assert len(commits) == 1


COUNT = "match { $p: Person } return { count($p) as people }"


@pytest.mark.parametrize(
    "point",
    [
        "commit.after_publish",  # acceptance check 4: the commit is there, its answer is lost
        *(
            pytest.param(point, marks=pytest.mark.slow)
            for point in (*failpoints.COMMIT_POINTS, *failpoints.GROUP_POINTS)
            if point != "commit.after_publish"
        ),
    ],
)
def test_retries_by_key_lose_nothing_and_double_nothing(
    uri: str, tmp_path: Path, point: str
) -> None:
    """Workers are killed in the middle of commits while clients repeat by their keys."""
    arguments = (uri, "--unauthenticated", "--workers", "2")
    grouped = point in failpoints.GROUP_POINTS  # groups need many clients
    environment = {
        "OMNIGRAPH_FAILPOINTS": f"{point}=kill@{_deadly_visit(point)}",
        "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": "64",  # all of the clients are one actor
    }
    clients_at_once = CLIENTS_OF_GROUPS if grouped else KEYED_CLIENTS
    writes = 2 * CLIENTS_OF_GROUPS if grouped else WRITES
    branches = [f"b{n}" if point in FORK_POINTS else "main" for n in range(writes)]
    with omnigraph.open(uri) as graph:
        for name in set(branches) - {"main"}:
            graph.branches.create(name)
    serving = ProcessServer(*arguments, environment=environment, log=tmp_path / "log")
    with serving as server:
        with ThreadPoolExecutor(clients_at_once) as clients:
            done = list(
                clients.map(lambda n, b: _until_known(server, n, b), range(writes), branches)
            )
        assert "worker ended" in server.log_text()
        assert server.stop() in (0, 2), server.log_text()
    with omnigraph.open(uri) as graph:
        found: list[str] = []
        by_id: set[str] = set()
        for branch in set(branches):
            found += graph.read("Person", branch)["name"].to_pylist()
            log = graph.commits.list(branch, limit=None)
            by_id |= {commit.graph_commit_id for commit in log}
        assert sorted(n for n in found if n.startswith("k")) == sorted(
            map("k{}".format, range(writes))
        )
        assert set(done) <= by_id
        assert len(set(done)) == writes
        assert_at_rest(graph)


def _deadly_visit(point: str) -> int:
    """The visit of a point that kills, in every worker anew: after its first commits.

    Each write of a group visits some points. The second visit would end the first group of each
    worker, so that a worker would make no more than the one write before it.
    """
    if point in POINTS_OF_EACH_WRITE:
        return CLIENTS_OF_GROUPS // 2
    return 2 if point in failpoints.GROUP_POINTS else 3


def _until_known(server: ProcessServer, number: int, branch: str) -> str:
    """Repeat an insert by its key until the answer is there; the id of its commit."""
    for _ in range(200):
        try:
            with server.graph_client() as graph:
                answer = insert(graph, f"k{number}", f"key-{number}", branch)
        except httpx.TransportError:
            continue
        if answer.status_code == 200:
            return str(answer.json()["commit"]["graph_commit_id"])
        assert answer.status_code in (409, 503), answer.text
        assert answer.json()["retryable"], answer.text
    raise AssertionError("no answer")

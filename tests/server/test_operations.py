"""`Prefer: respond-async`: the state of work that goes on by itself, also after a crash."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from omnigraph import failpoints
from omnigraph.commit.operation_log import OperationLog
from omnigraph.errors import CommitRejected, ResourceLimit, StorageFailure
from omnigraph.graph.open import open_graph
from omnigraph.server.route_table import ROUTES
from omnigraph.server.routes import long_work
from omnigraph_testing.crash import start
from omnigraph_testing.http_server import ProcessServer, ThreadServer, wait_until

ADD = "query add($name: String) { insert Person { name: $name } }"
LATER = {"Prefer": "respond-async"}


def a_branch_to_merge(http: httpx.Client, name: str) -> None:
    http.post("/branches", json={"name": name})
    http.post("/mutate", json={"query": ADD, "params": {"name": name}, "branch": name})


def ended(http: httpx.Client, operation_id: str) -> dict[str, Any]:
    def is_done() -> bool:
        status = http.get(f"/operations/{operation_id}").json()["status"]
        return status not in ("queued", "running")

    wait_until(is_done)
    found: dict[str, Any] = http.get(f"/operations/{operation_id}").json()
    return found


def test_an_operation_succeeds(http: httpx.Client) -> None:
    a_branch_to_merge(http, "later-1")
    answer = http.post("/branches/merge", json={"source": "later-1"}, headers=LATER)
    assert answer.status_code == 202, answer.text
    name = answer.json()["operation_id"]
    assert answer.headers["location"] == f"/graphs/default/operations/{name}"
    done = ended(http, name)
    assert (done["status"], done["kind"]) == ("succeeded", "mergeBranches")
    assert done["result"]["outcome"] == "fast_forward"
    assert done["finished_at"] >= done["started_at"] >= done["created_at"]
    assert name in [found["operation_id"] for found in http.get("/operations").json()["operations"]]
    late = http.delete(f"/operations/{name}")
    assert (late.status_code, late.json()["code"]) == (409, "conflict")


def test_an_operation_fails(http: httpx.Client) -> None:
    refused = http.post("/branches/merge", json={"source": "nope"}, headers=LATER)
    assert refused.status_code == 404  # at once, so it is the answer itself
    assert http.get("/operations/01ARZ3NDEKTSV4RRFFQ69G5FAV").status_code == 404
    assert http.get("/operations/nonsense").status_code == 404
    failed = http.get("/operations?status=failed").json()["operations"]
    assert failed[0]["error"]["code"] == "not_found"


def test_the_body_of_an_operation_that_never_begins_is_removed(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    bodies = []

    def begin(*_: Any) -> None:
        bodies.extend(path.name for path in tmp_path.iterdir())
        raise StorageFailure("the disk is full")

    monkeypatch.setattr(OperationLog, "begin", begin)
    headers = LATER | {"Content-Type": "application/x-ndjson"}
    answer = http.post("/load/ndjson", content=b"{}", headers=headers)
    assert answer.status_code == 500, answer.text
    assert len(bodies) == 1
    assert not list(tmp_path.iterdir())


def test_an_operation_is_cancelled(http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    a_branch_to_merge(http, "later-2")
    go_on = threading.Event()

    def hold(name: str) -> None:
        if name == "commit.after_stage":
            assert go_on.wait(30)

    monkeypatch.setattr(failpoints, "hit", hold)
    answer = http.post("/branches/merge", json={"source": "later-2"}, headers=LATER)
    name = answer.json()["operation_id"]
    assert answer.json()["status"] == "running"
    head = http.get("/commits?limit=1").json()["commits"][0]
    asked = http.delete(f"/operations/{name}")
    assert asked.status_code == 200, asked.text
    go_on.set()
    assert ended(http, name)["status"] == "cancelled"
    assert http.get("/commits?limit=1").json()["commits"][0] == head


def test_an_operation_that_publishes_is_not_cancelled(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_branch_to_merge(http, "later-3")
    publishes, go_on = threading.Event(), threading.Event()

    def hold(name: str) -> None:
        if name == "commit.before_publish":
            publishes.set()
            assert go_on.wait(30)

    monkeypatch.setattr(failpoints, "hit", hold)
    name = http.post("/branches/merge", json={"source": "later-3"}, headers=LATER).json()[
        "operation_id"
    ]
    assert publishes.wait(30)
    late = http.delete(f"/operations/{name}")
    go_on.set()
    assert (late.status_code, late.json()["code"]) == (409, "conflict")
    assert "publishing" in late.json()["error"]
    assert ended(http, name)["status"] == "succeeded"


def test_another_worker_does_not_cancel_an_operation_that_publishes(uri: str) -> None:
    with open_graph(uri) as runs, open_graph(uri) as asked:
        operation = runs.engine.operations.begin("mergeBranches", None, None, "merge", "main")
        operation.reached({}, publishes=True)
        with pytest.raises(CommitRejected, match="publishing"):
            asked.engine.operations.ask_cancel(operation.begun.operation_id)
        runs.engine.operations.notice_cancellations()
        assert not operation.cancel.is_set()
        operation.reached({}, publishes=True)  # the write is staged again
        operation.release()


def test_another_worker_knows_how_far_an_operation_is(uri: str) -> None:
    with open_graph(uri) as runs, open_graph(uri) as asked:
        here, there = runs.engine.operations, asked.engine.operations
        operation = here.begin("optimize", None, None, None, None)
        name = operation.begun.operation_id
        here.tell_progress()
        assert there.show(name)["progress"] is None
        for done in (1, 2):
            operation.started_at = 7
            operation.reached({"done": done}, publishes=False)
            here.tell_progress()
            here.tell_progress()  # nothing has changed
            assert there.show(name) == here.show(name)
            assert there.show(name)["progress"] == {"done": done}
            assert (there.show(name)["started_at"], there.show(name)["status"]) == (7, "running")
        here.end(operation, "succeeded", {})
        here.tell_progress()
        assert there.show(name) == here.show(name)
        assert len(here.list()) == len(there.list()) == 1


def test_an_operation_that_another_worker_cancelled_does_not_publish(uri: str) -> None:
    with open_graph(uri) as runs, open_graph(uri) as asked:
        late = runs.engine.operations.begin("mergeBranches", None, None, "merge", "main")
        for _ in range(2):  # the second time, it is cancelled already
            asked.engine.operations.ask_cancel(late.begun.operation_id)
        late.reached({}, publishes=False)
        with pytest.raises(ResourceLimit, match="cancelled"):
            late.reached({}, publishes=True)
        early = runs.engine.operations.begin("mergeBranches", None, None, "merge", "main")
        asked.engine.operations.ask_cancel(early.begun.operation_id)
        runs.engine.operations.notice_cancellations()
        with pytest.raises(ResourceLimit, match="cancelled"):
            early.reached({}, publishes=False)
        late.release()
        early.release()


def test_the_commit_log_decides_after_a_crash(uri: str) -> None:
    """Two processes died: one after its commit, the other before it."""
    with open_graph(uri) as graph:
        log = graph.engine.operations
        done = log.begin("mergeBranches", None, "key-1", "merge", "main")
        lost = log.begin("mergeBranches", None, None, "merge", "main")
        graph.branches.create("side")
        graph.mutate(ADD, params={"name": "x"}, branch="side")
        merged = graph.merge("side", idempotency_key="key-1")
        assert log.show(done.begun.operation_id)["status"] == "queued"
        done.release()
        lost.release()
    with ThreadServer(uri) as server, server.graph_client() as http:
        found = http.get(f"/operations/{done.begun.operation_id}").json()
        assert found["status"] == "succeeded"
        assert found["result"]["commit"]["graph_commit_id"] == merged.commit.graph_commit_id
        gone = http.get(f"/operations/{lost.begun.operation_id}").json()
        assert (gone["status"], gone["error"]["retryable"]) == ("failed", True)


@pytest.mark.parametrize(
    ("point", "status"),
    [
        ("commit.after_stage", "failed"),
        ("commit.after_advance", "succeeded"),  # recovery finishes it
        ("commit.after_publish", "succeeded"),
    ],
)
@pytest.mark.crash
def test_an_operation_of_a_killed_worker(uri: str, tmp_path: Path, point: str, status: str) -> None:
    """Its status is what recovery makes of it, from the first answer on."""
    armed = {"OMNIGRAPH_FAILPOINTS": f"{point}=kill"}
    arguments = (uri, "--unauthenticated", "--workers", "2")
    with ProcessServer(*arguments, environment=armed, log=tmp_path / "log") as server:
        with server.graph_client() as http, suppress(httpx.TransportError):
            lines = b'{"type": "Person", "data": {"name": "late"}}\n'
            headers = LATER | {"Content-Type": "application/x-ndjson", "Idempotency-Key": "k"}
            http.post("/load/ndjson", content=lines, headers=headers)
        wait_until(lambda: "worker ended" in server.log_text())

        def told(path: str) -> dict[str, Any]:
            with server.graph_client() as http:
                found: dict[str, Any] = http.get(path).json()
                return found

        (operation,) = told("/operations")["operations"]
        assert (operation["kind"], operation["status"]) == ("loadNdjson", status)
        made = told("/commits?idempotency_key=k")["commits"]
        if status == "succeeded":
            assert operation["result"]["commit"]["graph_commit_id"] == made[0]["graph_commit_id"]
        else:
            assert made == []
            assert "nothing changed" in operation["error"]["error"]
        again = told(f"/operations/{operation['operation_id']}")
        assert again == operation


def test_work_that_recovery_will_finish(uri: str) -> None:
    """A handle that may write finishes it first; one that only reads says that it is not known."""
    with open_graph(uri) as writes, open_graph(uri, read_only=True) as reads:
        lost = writes.engine.operations.begin("loadNdjson", "victim", "key-1", "load", "main")
        lost.release()
        writes.engine.operations._here.clear()
        arguments = {"uri": uri, "key": "key-1"}
        child = start(
            "omnigraph_testing.workloads:keyed_load",
            arguments,
            failpoints="commit.after_advance=kill",
        )
        assert child.finish()[0] == -signal.SIGKILL
        name = lost.begun.operation_id
        assert reads.engine.operations.show(name, read_only=True)["status"] == "unknown"
        assert list(reads.as_actor("victim").commits.by_key("key-1")) == []
        (made,) = writes.as_actor("victim").commits.by_key("key-1")
        for graph in (writes, reads):
            found = graph.engine.operations.show(name, read_only=graph.read_only)
            assert found["status"] == "succeeded"
            assert found["result"]["commit"]["graph_commit_id"] == made.graph_commit_id


def test_every_write_that_answers_later_names_its_commit() -> None:
    """Without the operation of the commit, a crash would look like a failure."""
    later = {entry.operation_id for entry in ROUTES if entry.is_async_work and entry.takes_key}
    assert later == long_work._COMMITS.keys()


def test_operations_are_kept_for_a_day_after_their_end(uri: str) -> None:
    with open_graph(uri) as graph, open_graph(uri) as other:
        log = graph.engine.operations
        old, new, runs = (log.begin("optimize", None, None, None, None) for _ in range(3))
        log.end(old, "succeeded", {})
        log.end(new, "succeeded", {})
        yesterday = time.time() - 90_000
        for file in Path(uri, "__operations").iterdir():
            if not file.name.startswith(new.begun.operation_id):
                os.utime(file, (yesterday, yesterday))
        begun = next(Path(uri, "__operations").glob(f"{new.begun.operation_id}.begun*"))
        os.utime(begun, (yesterday, yesterday))
        kept = [found["operation_id"] for found in other.engine.operations.list()]
        assert kept == [runs.begun.operation_id, new.begun.operation_id]
        runs.release()


def test_operations_belong_to_their_actor(uri: str) -> None:
    tokens = json.dumps({"ada": "a", "bob": "b"})
    with ThreadServer(uri, tokens=tokens) as server:
        log: OperationLog = next(iter(server.state.graphs)).graph.engine.operations
        operation = log.begin("optimize", "ada", None, None, None)
        log.end(operation, "succeeded", {"skipped": []})
        path = f"/operations/{operation.begun.operation_id}"
        with server.graph_client(token="a") as ada, server.graph_client(token="b") as bob:
            assert ada.get(path).json()["status"] == "succeeded"
            assert bob.get(path).status_code == 404
            assert bob.delete(path).status_code == 404
            assert len(ada.get("/operations").json()["operations"]) == 1
            assert bob.get("/operations").json()["operations"] == []

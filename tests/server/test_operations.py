"""`Prefer: respond-async`: the state of work that goes on by itself, also after a crash."""

from __future__ import annotations

import json
import tempfile
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from omnigraph import failpoints
from omnigraph.commit.operation_log import OperationLog
from omnigraph.errors import CommitRejected, ResourceLimit, StorageFailure
from omnigraph.graph.open import open_graph
from omnigraph_testing.http_server import ThreadServer, wait_until

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

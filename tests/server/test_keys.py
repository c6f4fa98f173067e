"""Idempotency keys over HTTP: writes without effect, conflicts, lookups, and writes in flight."""

from __future__ import annotations

import threading
from typing import Any

import httpx
import pytest

from omnigraph import failpoints
from omnigraph_testing.http_server import ThreadServer

ADD = "query add($name: String) { insert Person { name: $name } }"
AGE = 'query older($age: I64) { update Person set { age: $age } where name = "ada" }'


def keyed(http: httpx.Client, method: str, path: str, key: str, body: Any = None) -> httpx.Response:
    return http.request(method, path, json=body, headers={"Idempotency-Key": key})


def replayed(answer: httpx.Response) -> bool:
    assert answer.status_code == 200, answer.text
    return answer.headers.get("idempotency-replayed") == "true"


def test_a_write_without_an_effect_is_remembered(http: httpx.Client) -> None:
    """Its repetition must not do what the first one had no reason to do."""
    body = {"query": 'delete Person where name = "later"'}
    first = keyed(http, "POST", "/mutate", "nothing", body)
    assert first.json()["commit"] is None
    http.post("/mutate", json={"query": ADD, "params": {"name": "later"}})
    assert replayed(keyed(http, "POST", "/mutate", "nothing", body))
    query = 'match { $p: Person { name: "later" } } return { $p.name as n }'
    assert http.post("/query", json={"query": query}).json()["row_count"] == 1


def test_another_request_with_the_same_key(http: httpx.Client) -> None:
    keyed(http, "POST", "/mutate", "taken", {"query": ADD, "params": {"name": "t1"}})
    other = keyed(http, "POST", "/mutate", "taken", {"query": ADD, "params": {"name": "t2"}})
    assert other.status_code == 409
    assert other.json()["idempotency_conflict"] == {"key": "taken"}
    assert other.json()["code"] == "conflict"
    keyed(http, "POST", "/branches", "taken", {"name": "taken-branch"})  # another route
    clash = keyed(http, "POST", "/branches", "taken", {"name": "other-branch"})
    assert clash.json()["idempotency_conflict"] == {"key": "taken"}
    for bad in ("", "x" * 129, "a b"):
        assert keyed(http, "POST", "/mutate", bad, {"query": ADD}).status_code == 400


def test_lookup_after_a_lost_answer(http: httpx.Client) -> None:
    body = {"query": ADD, "params": {"name": "lost"}}
    made = keyed(http, "POST", "/mutate", "lost-1", body).json()["commit"]
    found = http.get("/commits", params={"idempotency_key": "lost-1"}).json()["commits"]
    assert [commit["graph_commit_id"] for commit in found] == [made["graph_commit_id"]]
    assert http.get("/commits?idempotency_key=never").json() == {"commits": []}


IN_FLIGHT = {
    "/mutate": {"query": ADD, "params": {"name": "slow"}},
    "/apply": {"edits": {"Person": {"insert": [{"name": "slow edit"}]}}},
    "/schema/apply": {},
}


@pytest.mark.parametrize("path", IN_FLIGHT)
def test_a_request_in_flight(
    server: ThreadServer, http: httpx.Client, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    began, go_on = threading.Event(), threading.Event()

    def hold(name: str) -> None:
        if name == "commit.after_stage":
            began.set()
            assert go_on.wait(30)

    monkeypatch.setattr(failpoints, "hit", hold)
    source = http.get("/schema").json()["schema_source"]
    wider = source.replace("node Person {", "node Person {\n  slow: String?")
    body = IN_FLIGHT[path] or {"schema_source": wider}
    answers: list[httpx.Response] = []

    def write() -> None:
        with server.graph_client() as client:
            answers.append(keyed(client, "POST", path, "slow-1", body))

    writer = threading.Thread(target=write)
    writer.start()
    assert began.wait(30)
    busy = keyed(http, "POST", path, "slow-1", body)
    go_on.set()
    writer.join()
    assert (busy.status_code, busy.headers["retry-after"]) == (409, "1")
    assert busy.json()["code"] == "conflict"
    assert replayed(keyed(http, "POST", path, "slow-1", body))
    assert answers[0].status_code == 200


def test_a_key_belongs_to_no_branch(http: httpx.Client) -> None:
    """The same key on another branch is another request, whichever branch has the commit."""
    http.post("/branches", json={"name": "before-key"})
    body = {"query": ADD, "params": {"name": "on-main"}}
    assert not replayed(keyed(http, "POST", "/mutate", "branch-1", body))
    http.post("/branches", json={"name": "after-key"})  # its history has the commit of main
    for branch in ("before-key", "after-key"):
        other = keyed(http, "POST", "/mutate", "branch-1", {**body, "branch": branch})
        assert other.status_code == 409, other.text
        assert other.json()["idempotency_conflict"] == {"key": "branch-1"}
        lines = b'{"type": "Person", "data": {"name": "loaded"}}\n'
        head = {"Idempotency-Key": "branch-2", "Content-Type": "application/x-ndjson"}
        http.post("/load/ndjson", content=lines, headers=head)
        loaded = http.post(f"/load/ndjson?branch={branch}", content=lines, headers=head)
        assert loaded.status_code == 409, loaded.text
        assert loaded.json()["idempotency_conflict"] == {"key": "branch-2"}
    nothing = {"query": 'delete Person where name = "never"'}
    keyed(http, "POST", "/mutate", "branch-3", nothing)
    other = keyed(http, "POST", "/mutate", "branch-3", {**nothing, "branch": "before-key"})
    assert other.status_code == 409
    assert replayed(keyed(http, "POST", "/mutate", "branch-1", body))

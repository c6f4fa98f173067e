"""A repeated `/query` is answered from memory: never an older head, never other rules."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

import omnigraph
from omnigraph.graph.handle import Graph
from omnigraph_testing.http_server import ThreadServer

COUNT = {"query": "match { $p: Person } return { count($p) as n }"}
ADD = "query add($name: String) { insert Person { name: $name } }"


def people(http: httpx.Client, **more: Any) -> int:
    answer = http.post("/query", json={**COUNT, **more})
    assert answer.status_code == 200, answer.text
    return int(answer.json()["rows"][0]["n"])


def add(http: httpx.Client, name: str) -> None:
    assert http.post("/mutate", json={"query": ADD, "params": {"name": name}}).status_code == 200


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries that reach the graph."""
    found: list[str] = []
    run = Graph.query

    def query(self: Graph, source: Any, *rest: Any, **named: Any) -> Any:
        found.append(source.text)
        return run(self, source, *rest, **named)

    monkeypatch.setattr(Graph, "query", query)
    return found


def test_equal_requests_are_computed_once_until_a_commit(
    server: ThreadServer, http: httpx.Client, computed: list[str]
) -> None:
    first = http.post("/query", json=COUNT)
    again = http.post("/query", json=COUNT)
    assert len(computed) == 1
    assert again.content == first.content
    same = {"content-type", "content-length", "etag", "omnigraph-http-api"}
    assert {n: again.headers[n] for n in same} == {n: first.headers[n] for n in same}
    assert again.headers["x-request-id"] != first.headers["x-request-id"]
    counted = people(http)
    add(http, "one more")
    assert people(http) == counted + 1
    with omnigraph.open(server.state.graphs.find("default").uri) as other:  # another process
        other.mutate(ADD, "add", {"name": "from outside"})
    assert people(http) == counted + 2


def test_what_the_client_asks_for_counts(http: httpx.Client) -> None:
    for _ in range(2):
        assert http.post("/query", json=COUNT).json()["rows"]
        lines = http.post("/query", json=COUNT, headers={"Accept": "application/x-ndjson"})
        assert lines.headers["content-type"].startswith("application/x-ndjson")
        wrong = http.post(
            "/query", content=json.dumps(COUNT), headers={"Content-Type": "text/plain"}
        )
        assert wrong.status_code == 415
        tag = http.post("/query", json=COUNT).headers["etag"]
        held = http.post("/query", json=COUNT, headers={"If-None-Match": tag})
        assert (held.status_code, held.content) == (304, b"")
        http.post("/branches", json={"name": "other"})
        assert people(http, branch="other") == people(http)
    http.delete("/branches/other")
    gone = http.post("/query", json={**COUNT, "branch": "other"})
    assert gone.status_code == 404


def test_a_full_server_refuses_them_too(server: ThreadServer, http: httpx.Client) -> None:
    people(http)
    admission = server.state.admission
    for _ in range(admission.limits.reads):
        admission.enter("read", admission.limits.reads)
    try:
        assert http.post("/query", json=COUNT).status_code == 429
    finally:
        admission.add("read", -admission.limits.reads)
    assert people(http) > 0

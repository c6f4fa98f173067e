"""A repeated `/query` is answered from memory: never an older head, never other rules."""

from __future__ import annotations

import json
import logging
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


def test_the_third_equal_request_does_not_reach_the_graph_until_a_commit(
    server: ThreadServer, http: httpx.Client, computed: list[str]
) -> None:
    first, _, again = (http.post("/query", json=COUNT) for _ in range(3))
    assert len(computed) <= 2
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


def test_each_of_them_is_logged_and_counted(
    server: ThreadServer, http: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    asked = {"query": "match { $p: Person } return { count($p) as logged }"}
    route = "/graphs/{graph_id}/query"
    with server.client() as client, caplog.at_level(logging.INFO, "omnigraph.access"):
        before = _counted(client.get("/metrics").text)
        ids = [http.post("/query", json=asked).headers["x-request-id"] for _ in range(5)]
        named = http.post("/query", json=asked, headers={"X-Request-Id": "mine.1"})
        assert named.headers["x-request-id"] == "mine.1"
        assert _counted(client.get("/metrics").text) == before + 6
    lines = [r.fields for r in caplog.records if r.fields["route"] == route]  # type: ignore[attr-defined]
    assert [line["request_id"] for line in lines] == [*ids, "mine.1"]
    assert len(set(ids)) == 5
    assert all(len(each) == 26 for each in ids)
    for line in lines:
        del line["request_id"], line["ms"]
    assert all(line == lines[0] for line in lines)
    assert lines[0]["graph_id"] == "default"
    assert lines[0]["query_name"]


def _counted(text: str) -> float:
    start = 'omnigraph_http_requests_total{graph="default",method="POST",'
    start += 'route="/graphs/{graph_id}/query",status="200"}'
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(start))


def test_the_flat_route_names_its_successor_each_time(server: ThreadServer) -> None:
    with server.client() as client:
        answers = [client.post("/query", json=COUNT) for _ in range(4)]
    heads = [{**answer.headers, "x-request-id": "", "date": ""} for answer in answers]
    assert all(head == heads[0] for head in heads)
    assert heads[0]["deprecation"] == "true"


def test_a_body_in_parts_and_further_headers(server: ThreadServer, http: httpx.Client) -> None:
    content = json.dumps(COUNT).encode()
    expected = [http.post("/query", json=COUNT) for _ in range(4)][-1]

    def in_parts() -> Any:
        yield content[:7]
        yield content[7:]

    kind = {"Content-Type": "application/json"}
    for _ in range(2):
        parts = http.post("/query", content=in_parts(), headers=kind)
        assert parts.json() == expected.json()
        packed = http.post("/query?x=1", json=COUNT, headers={"traceparent": "nothing"})
        assert packed.content == expected.content


def test_tokens_are_checked_each_time(uri: str) -> None:
    with ThreadServer(uri, tokens=json.dumps({"ada": "a", "bob": "b"})) as server:
        answers = {}
        for token in ("a", "b"):
            with server.graph_client(token=token) as http:
                answers[token] = [http.post("/query", json=COUNT) for _ in range(4)][-1]
                assert answers[token].status_code == 200
        assert answers["a"].content == answers["b"].content
        with server.graph_client(token="c") as http:
            assert http.post("/query", json=COUNT).status_code == 401
        with server.graph_client() as http:
            assert http.post("/query", json=COUNT).status_code == 401
            twice = [("Authorization", "Bearer a"), ("Authorization", "Bearer b")]
            assert http.post("/query", json=COUNT, headers=twice).status_code == 401

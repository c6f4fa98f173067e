"""Exports, baselines and entities over HTTP: one state, whatever others do meanwhile."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.graph import export_streams
from omnigraph.server.configuration import RequestLimits
from omnigraph_testing.http_server import ThreadServer
from omnigraph_testing.workloads import settings

SCHEMA = """
node Person { name: String @key  age: I32?  bio: String? }
node Note { text: String }
edge Knows: Person -> Person
"""
PEOPLE = 5000
STREAMS = 2


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadServer]:
    uri = str(tmp_path_factory.mktemp("exports") / "graph.omni")
    with omnigraph.init(uri, SCHEMA, settings=settings()) as graph:
        people = [{"name": f"p{n:05}", "age": n, "bio": "x" * 3000} for n in range(PEOPLE)]
        people[3]["age"] = None
        notes = [{"id": "n1", "text": "a"}, {"id": "n2", "text": "b"}]
        graph.load({"Person": people, "Note": notes})
        graph.load([{"edge": "Knows", "from": "p00001", "to": "p00002", "data": {"id": "k1"}}])
    with ThreadServer(uri, engine=settings(), limits=RequestLimits(streams=STREAMS)) as running:
        yield running


@pytest.fixture(scope="module")
def local(server: ThreadServer) -> Graph:
    return server.state.graphs.find("default").graph


PLAIN = {"Accept-Encoding": "identity"}
"""Compressed, these exports would fit into the buffers of one connection."""


def slow_client(server: ThreadServer) -> httpx.Client:
    """A client whose socket buffers little, so that a stream waits for its reader."""
    narrow = [(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)]
    return server.graph_client(transport=httpx.HTTPTransport(socket_options=narrow))


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_an_export_has_ids_beside_the_data_and_loads_again(
    http: httpx.Client, local: Graph, tmp_path: Any
) -> None:
    answer = http.post("/export", json={})
    assert answer.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    assert answer.headers["omnigraph-snapshot-id"] == local.branches.show("main").head_commit_id
    found = records(answer.text)
    bio = "x" * 3000
    assert found[0] == {
        "type": "Person",
        "id": "p00000",
        "data": {"name": "p00000", "age": 0, "bio": bio},
    }
    assert found[3] == {"type": "Person", "id": "p00003", "data": {"name": "p00003", "bio": bio}}
    assert found[PEOPLE : PEOPLE + 2] == [
        {"type": "Note", "id": "n1", "data": {"text": "a"}},
        {"type": "Note", "id": "n2", "data": {"text": "b"}},
    ]
    assert found[-1] == {"edge": "Knows", "id": "k1", "from": "p00001", "to": "p00002", "data": {}}
    with omnigraph.init(tmp_path / "again.omni", SCHEMA, settings=settings()) as again:
        (tmp_path / "out.ndjson").write_bytes(answer.content)
        assert again.load(tmp_path / "out.ndjson").total_entities == PEOPLE + 3
        assert again.read("Note").to_pylist() == local.read("Note").to_pylist()
    some = records(http.post("/export", json={"type_names": ["Note"]}).text)
    assert [record["id"] for record in some] == ["n1", "n2"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"branch": "nope"}, 404),
        ({"branch": "main", "snapshot": "main"}, 400),
        ({"type_names": ["Nope"]}, 404),
        ({"extra": 1}, 400),
        ({"snapshot": "01J00000000000000000000000"}, 404),
    ],
)
def test_a_wrong_export_has_a_status(http: httpx.Client, body: Any, status: int) -> None:
    answer = http.post("/export", json=body)
    assert answer.status_code == status, answer.text
    assert answer.json()["request_id"]


def test_a_slow_reader_gets_the_state_of_its_beginning(
    server: ThreadServer, http: httpx.Client, local: Graph
) -> None:
    slow = slow_client(server)
    with slow, slow.stream("POST", "/export", json={}, headers=PLAIN) as answer:
        chunks = answer.iter_raw(1000)
        first = next(chunks)
        local.branches.create("meanwhile")
        local.mutate('delete Note where text = "a"', branch="meanwhile")
        local.merge("meanwhile", delete_branch=True)
        local.cleanup(keep=1, older_than="0s", confirm=True)
        assert server.state.admission.inflight["stream"] == 1
        lines = records((first + b"".join(chunks)).decode())
    assert len(lines) == PEOPLE + 3
    assert local.read("Note").num_rows == 1
    at = http.post("/export", json={"snapshot": answer.headers["omnigraph-snapshot-id"]})
    assert len(records(at.text)) == PEOPLE + 3, "cleanup keeps what was current a moment ago"


def test_streams_are_counted_and_end_with_their_reader(
    server: ThreadServer, http: httpx.Client
) -> None:
    inflight = server.state.admission.inflight
    with slow_client(server) as one, slow_client(server) as two:
        first = one.send(one.build_request("POST", "/export", json={}, headers=PLAIN), stream=True)
        second = two.send(two.build_request("POST", "/export", json={}, headers=PLAIN), stream=True)
        refused = http.post("/export", json={})
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["code"] == "too_many_requests"
        assert http.post("/mutate", json={"query": 'insert Note { text: "c" }'}).status_code == 200
        first.close()
        second.close()
    wait_for(lambda: inflight["stream"] == 0)
    assert http.post("/export", json={"type_names": ["Knows"]}).status_code == 200


def wait_for(condition: Any, seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_long_export_keeps_cleanup_away(
    server: ThreadServer, local: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_streams, "_YOUNG_SHARE", 0.0)
    slow = slow_client(server)
    with slow, slow.stream("POST", "/export", json={}, headers=PLAIN) as answer:
        chunks = answer.iter_raw(1000)  # the connection is closed with its iterator
        next(chunks)
        assert [seen.intent.kind for seen in local.engine.board.others()] == ["hold"]
    wait_for(lambda: not list(local.engine.board.others()))


def test_a_baseline_ends_with_the_cursor_behind_it(http: httpx.Client, local: Graph) -> None:
    *entities, last = records(http.post("/changes/baseline", json={}).text)
    assert len(entities) == sum(local.read(name).num_rows for name in ("Person", "Note", "Knows"))
    end = last["baseline"]
    assert end["snapshot_commit_id"] == local.branches.show("main").head_commit_id
    commit = local.mutate('insert Note { text: "later" }').commit
    assert commit is not None
    page = http.get("/changes", params={"cursor": end["resume_cursor"]}).json()
    assert [block["cause"]["graph_commit_id"] for block in page["blocks"]] == [
        commit.graph_commit_id
    ]


def test_a_baseline_with_a_filter(http: httpx.Client) -> None:
    body = {"kind": ["node"], "type": ["Note"], "op": ["insert"]}
    *entities, last = records(http.post("/changes/baseline", json=body).text)
    assert {record["type"] for record in entities} == {"Note"}
    params = {**body, "cursor": last["baseline"]["resume_cursor"]}
    assert http.get("/changes", params=params).json()["caught_up"] is True
    deletes = records(http.post("/changes/baseline", json={"op": ["delete"]}).text)
    assert [list(record) for record in deletes] == [["baseline"]]
    for wrong in ({"kind": ["x"]}, {"op": ["x"]}):
        assert http.post("/changes/baseline", json=wrong).status_code == 400
    assert http.post("/changes/baseline", json={"type": ["Nope"]}).status_code == 404


def entities(http: httpx.Client, **body: Any) -> pa.Table:
    answer = http.post("/entities", json=body)
    assert answer.status_code == 200, answer.text
    return pa.ipc.open_stream(answer.content).read_all()


def test_entities_as_arrow(http: httpx.Client, local: Graph) -> None:
    everyone = local.read("Person")
    assert entities(http, type="Person").sort_by("id").equals(everyone.sort_by("id"))
    some = entities(http, type="Person", ids=["p00002", "p00001"], columns=["name", "age"])
    assert sorted(some.column("age").to_pylist()) == [1, 2]
    assert some.column_names == ["name", "age"]
    ordered = entities(http, type="Person", sorted=True)
    assert ordered.column("id").to_pylist() == sorted(everyone.column("id").to_pylist())
    for wrong in (
        {"type": "Nope"},
        {"type": "Person", "columns": ["nope"]},
        {"type": "Person", "ids": [], "sorted": True},
    ):
        assert http.post("/entities", json=wrong).status_code in (400, 404)

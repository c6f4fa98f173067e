"""Loads over HTTP: what is accepted, what is refused, and that a refused load writes nothing."""

from __future__ import annotations

import gzip
import io
import json
import re
import socket
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.server.configuration import RequestLimits
from omnigraph_testing.http_server import ThreadServer
from omnigraph_testing.workloads import settings

SCHEMA = """
node Person { name: String @key  age: I32? }
node Note { text: String }
edge Knows: Person -> Person
"""
NDJSON = "application/x-ndjson"
PARQUET = "application/vnd.apache.parquet"
ARROW = "application/vnd.apache.arrow.stream"
LIMIT = 300_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("loads")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ThreadServer]:
    uri = str(folder / "graph.omni")
    omnigraph.init(uri, SCHEMA, settings=settings()).close()
    (folder / "allowed").mkdir()
    limits = RequestLimits(load_bytes=LIMIT)
    with ThreadServer(
        uri, engine=settings(), limits=limits, load_sources=(str(folder / "allowed"),)
    ) as running:
        yield running


@pytest.fixture(scope="module")
def local(server: ThreadServer) -> Graph:
    graph = server.state.graphs.find("default").graph
    graph.branches.create("empty")
    return graph


@pytest.fixture
def branch(local: Graph, request: pytest.FixtureRequest) -> str:
    """A branch without entities."""
    name = re.sub(r"\W+", "-", request.node.name).strip("-")
    local.branches.create(name, "empty")
    return name


def people(*names: str) -> bytes:
    lines = [json.dumps({"type": "Person", "data": {"name": name}}) for name in names]
    return ("\n".join(lines) + "\n").encode()


def send(
    http: httpx.Client, content: Any, media: str = NDJSON, path: str = "/load/ndjson", **more: Any
) -> httpx.Response:
    headers = {"Content-Type": media, **more.pop("headers", {})}
    return http.post(path, content=content, headers=headers, params=more)


def table(*names: str) -> pa.Table:
    return pa.table({"name": list(names), "age": list(range(len(names)))})


def arrow_stream(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=2)
    return sink.getvalue()


def parquet(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink)
    return sink.getvalue()


def names(graph: Graph, branch: str) -> list[str]:
    return sorted(graph.read("Person", branch, columns=["name"]).column("name").to_pylist())


BODIES = {
    "ndjson": (NDJSON, people("a", "b", "c"), {}),
    "ndjson, gzip": (NDJSON, gzip.compress(people("a", "b", "c")), {"Content-Encoding": "gzip"}),
    "parquet": (PARQUET, parquet(table("a", "b", "c")), {}),
    "arrow": (ARROW, arrow_stream(table("a", "b", "c")), {}),
}


@pytest.mark.parametrize("kind", BODIES)
def test_a_body_of_data(http: httpx.Client, local: Graph, kind: str) -> None:
    media, content, headers = BODIES[kind]
    branch = kind.replace(", ", "-")
    more = {} if media == NDJSON else {"type": "Person"}
    answer = send(http, content, media, branch=branch, **{"from": "main"}, **more, headers=headers)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["branch_created"] is True
    assert body["base_branch"] == "main"
    assert body["mode"] == "merge"
    assert body["total_entities"] == 3
    assert body["nodes"][0]["name"] == "Person"
    assert body["nodes"][0]["entities_loaded"] == 3
    assert body["commit"]["graph_commit_id"] == local.branches.show(branch).head_commit_id
    assert "uri" not in body
    assert names(local, branch) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("media", "content", "more", "status", "message"),
    [
        ("text/plain", people("a"), {}, 415, "the content type of this body is"),
        (PARQUET, parquet(table("a")), {}, 400, "needs ?type="),
        (PARQUET, b"rubbish", {"type": "Person"}, 400, "not a readable Parquet file"),
        (ARROW, b"rubbish " * 9, {"type": "Person"}, 400, "not an Arrow stream"),
        (ARROW, arrow_stream(table("a", "b", "c"))[:-400], {"type": "Person"}, 400, "Arrow"),
        (NDJSON, b'{"type":"Nope","data":{}}\n', {}, 400, "Nope"),
        (NDJSON, people("a") + b"{", {}, 400, "<body>:2"),
        (NDJSON, people("a"), {"mode": "sideways"}, 400, "no load mode"),
        (NDJSON, people("a"), {"branch": "missing"}, 404, "missing"),
        (NDJSON, people("a"), {"if_commit": "01J00000000000000000000000"}, 412, ""),
        (NDJSON, people("a"), {"map": "[]"}, 400, "map is a JSON object"),
        (NDJSON, people("a"), {"batch": "1"}, 400, "given together"),
        (NDJSON, people("a"), {"headers": {"Content-Encoding": "br"}}, 415, "'br'"),
        (
            NDJSON,
            gzip.compress(people("a"))[:-4],
            {"headers": {"Content-Encoding": "gzip"}},
            400,
            "not a whole gzip stream",
        ),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_a_refused_body_writes_nothing(
    http: httpx.Client,
    local: Graph,
    media: str,
    content: bytes,
    more: dict[str, Any],
    status: int,
    message: str,
) -> None:
    head = local.branches.show("main").head_commit_id
    answer = send(http, content, media, **more)
    assert answer.status_code == status, answer.text
    assert message in answer.json()["error"]
    assert local.branches.show("main").head_commit_id == head


def test_a_body_that_is_too_long_is_refused_while_it_is_sent(
    http: httpx.Client, local: Graph
) -> None:
    sent = 0

    def parts() -> Iterator[bytes]:
        nonlocal sent
        for number in range(2000):
            sent += 1
            yield people(*(f"x{number}-{n}" for n in range(500)))

    head = local.branches.show("main").head_commit_id
    answer = send(http, parts())
    assert answer.status_code == 413
    assert answer.json()["resource_limit"]["limit"] == LIMIT
    assert sent < 2000
    stated = send(http, bytes(LIMIT + 1))
    assert stated.json()["resource_limit"]["actual"] == LIMIT + 1
    assert local.branches.show("main").head_commit_id == head


def test_a_client_that_goes_away_has_written_nothing(server: ThreadServer, local: Graph) -> None:
    head = local.branches.show("main").head_commit_id
    place = urlsplit(server.url)
    with socket.create_connection((place.hostname, place.port)) as connection:
        content = people("gone")
        connection.sendall(
            b"POST /graphs/default/load/ndjson HTTP/1.1\r\nHost: x\r\n"
            b"Content-Type: application/x-ndjson\r\n"
            + f"Content-Length: {len(content) + 10}\r\n\r\n".encode()
            + content
        )
        wait_for(lambda: server.state.admission.inflight["write"] == 1)
    wait_for(lambda: server.state.admission.inflight["write"] == 0)
    assert local.branches.show("main").head_commit_id == head


def wait_for(condition: Any, seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_slow_body_stops_no_other_request(server: ThreadServer, http: httpx.Client) -> None:
    go_on = threading.Event()
    answers = []

    def parts() -> Iterator[bytes]:
        yield people("slow")
        go_on.wait(30)
        yield people("slower")

    with server.graph_client() as other:
        loading = threading.Thread(target=lambda: answers.append(send(other, parts())))
        loading.start()
        wait_for(lambda: server.state.admission.inflight["write"] == 1)
        quick = http.post("/mutate", json={"query": 'insert Note { text: "meanwhile" }'})
        assert quick.status_code == 200, quick.text
        go_on.set()
        loading.join()
    assert answers[0].json()["total_entities"] == 2


def test_a_key_stands_for_its_data(http: httpx.Client, local: Graph, branch: str) -> None:
    headers = {"Idempotency-Key": f"k-{branch}"}
    first = send(http, people("a"), branch=branch, headers=headers)
    again = send(http, iter([people("a")]), branch=branch, headers=headers)
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    assert again.json()["commit"] == first.json()["commit"]
    assert again.json()["repeated"] is True
    other = send(http, people("b"), branch=branch, headers=headers)
    assert other.status_code == 409, other.text
    assert other.json()["idempotency_conflict"] == {"key": headers["Idempotency-Key"]}
    assert names(local, branch) == ["a"]
    bad = send(http, people("a"), branch=branch, headers={"Idempotency-Key": "a b"})
    assert bad.status_code == 400


def test_a_key_of_a_load_without_effect(http: httpx.Client, local: Graph, branch: str) -> None:
    send(http, people("a"), branch=branch)
    headers = {"Idempotency-Key": f"k-{branch}"}
    for replayed in (None, "true"):
        answer = send(http, people("a"), branch=branch, headers=headers)
        assert answer.json()["commit"] is None
        assert answer.headers.get("idempotency-replayed") == replayed
        assert answer.json()["nodes"][0]["unchanged"] == 1


def test_options_of_a_load(http: httpx.Client, local: Graph, branch: str) -> None:
    flat = b'{"who":"a","age":1}\n{"who":"b","age":"old"}\n'
    more = {"type": "Person", "map": '{"who":"name"}', "on_error": "skip", "rejects": "true"}
    planned = send(http, flat, branch=branch, dry_run="true", **more)
    assert planned.json()["dry_run"] is True
    assert names(local, branch) == []
    done = send(http, flat, branch=branch, message="two people", stream="s", batch="7", **more)
    assert done.json()["rejected"] == 1
    assert json.loads(done.json()["rejects"])["line"] == 2
    assert local.commits.list(branch)[0].message == "two people"
    again = send(http, flat, branch=branch, stream="s", batch="7", **more)
    assert again.json()["repeated"] is True
    failed = send(http, flat, branch=branch, **{**more, "on_error": "fail"})
    assert failed.status_code == 400
    assert json.loads(failed.json()["rejects"])["line"] == 2


def archive(files: dict[str, bytes], index: Any) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as opened:
        for name, content in {"sources.json": json.dumps(index).encode(), **files}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))
    return sink.getvalue()


def test_several_files_in_one_commit(http: httpx.Client, local: Graph, branch: str) -> None:
    files = {
        "0/Person.csv": b"name,age\na,1\nb,2\n",
        "1/Person.csv.gz": gzip.compress(b"name\nc\n"),
        "2/edges.ndjson": b'{"edge":"Knows","from":"a","to":"c"}\n',
    }
    index = [
        {"file": "0/Person.csv", "type": "Person", "name": "people.csv"},
        {"file": "1/Person.csv.gz"},
        {"file": "2/edges.ndjson", "type": None, "name": "edges.ndjson"},
    ]
    media = "application/x-tar"
    done = send(http, archive(files, index), media, "/load/files", branch=branch)
    assert done.status_code == 200, done.text
    assert done.json()["total_entities"] == 4
    assert names(local, branch) == ["a", "b", "c"]
    bad = {**files, "0/Person.csv": b"name,age\na,old\n"}
    refused = send(http, archive(bad, index), media, "/load/files", branch=branch)
    assert "people.csv:2" in refused.json()["error"], "errors name the file of the client"
    for content in (
        archive(files, [{"file": "nowhere"}]),
        archive(files, {"a": 1}),
        archive({}, []),
        archive(files, index)[:700],
        b"rubbish",
    ):
        assert send(http, content, media, "/load/files", branch=branch).status_code == 400


def test_load_of_a_json_body(http: httpx.Client, local: Graph, branch: str) -> None:
    body = {"data": people("a", "b").decode(), "branch": branch}
    done = http.post("/load", json=body)
    assert done.status_code == 200, done.text
    assert done.json()["uri"] == "default", "the address of the storage is for operators"
    assert done.json()["total_entities"] == 2
    old = http.post("/ingest", json={**body, "mode": "overwrite"})
    assert old.headers["deprecation"] == "true"
    assert old.headers["link"] == '<load>; rel="successor-version"'
    assert old.json()["mode"] == "overwrite"
    for wrong in ({}, {"data": "", "sources": []}, {**body, "extra": 1}):
        assert http.post("/load", json=wrong).status_code == 400


def test_load_from_places_that_the_operator_allows(
    http: httpx.Client, local: Graph, folder: Path, branch: str
) -> None:
    allowed = folder / "allowed"
    (allowed / "in.ndjson").write_bytes(people("a"))
    (folder / "secret.ndjson").write_bytes(people("b"))
    done = http.post("/load", json={"sources": [f"{allowed}/in.ndjson"], "branch": branch})
    assert done.status_code == 200, done.text
    assert names(local, branch) == ["a"]
    for place in (f"{folder}/secret.ndjson", f"{allowed}/../secret.ndjson", "s3://other/x.ndjson"):
        refused = http.post("/load", json={"sources": [place], "branch": branch})
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    missing = http.post("/load", json={"sources": [f"{allowed}/none.ndjson"], "branch": branch})
    assert missing.status_code == 404


@pytest.mark.parametrize("kind", BODIES)
def test_a_load_that_the_client_does_not_wait_for(
    http: httpx.Client, local: Graph, branch: str, kind: str
) -> None:
    media, content, headers = BODIES[kind]
    more = {} if media == NDJSON else {"type": "Person"}
    headers = {"Prefer": "respond-async", **headers}
    answer = send(http, content, media, branch=branch, headers=headers, **more)
    assert answer.status_code == 202, answer.text
    place = answer.headers["location"].removeprefix("/graphs/default")

    def ended() -> bool:
        return http.get(place).json()["status"] == "succeeded"

    wait_for(ended)
    assert http.get(place).json()["result"]["total_entities"] == 3
    assert names(local, branch) == ["a", "b", "c"]


def test_a_load_needs_permission_before_its_body_is_read(folder: Path) -> None:
    uri = str(folder / "readable.omni")
    omnigraph.init(uri, SCHEMA, settings=settings()).close()
    with (
        ThreadServer(uri, engine=settings(), tokens='{"ada": "t"}') as running,
        running.graph_client(token="t") as client,
    ):
        asked = []

        def parts() -> Iterator[bytes]:
            for number in range(100_000):
                asked.append(number)
                yield bytes(10_000)

        assert send(client, parts()).status_code == 403
        assert len(asked) < 50_000


def test_a_batch_is_committed_once_under_any_key(tmp_path: Path) -> None:
    from omnigraph.manifest.records import StreamBatch

    omnigraph.init(tmp_path / "g.omni", "node Person { name: String @key }").close()
    batch = StreamBatch("crowd", 0)
    with (
        ThreadServer(str(tmp_path / "g.omni")) as server,
        omnigraph.open(f"{server.url}/graphs/default") as graph,
    ):
        first = graph.load({"Person": [{"name": "Ada"}]}, stream_batch=batch)
        again = graph.load({"Person": [{"name": "Bob"}]}, stream_batch=batch)
        assert again.repeated
        assert again.commit == first.commit
        assert graph.read("Person")["name"].to_pylist() == ["Ada"]

"""Answers of `/query` in every form, compressed or not, and the tags of states."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator

import httpx
import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph_testing.http_server import ThreadServer
from omnigraph_testing.workloads import settings

SCHEMA = """
node Person { name: String @key  age: I32?  big: I64?  at: DateTime?  photo: Blob?  v: Vector(2)? }
edge Knows: Person -> Person { since: Date? }
"""
PEOPLE = 3000
ALL = """query everyone() {
  match { $p: Person }
  return { $p.name as name, $p.age as age }
  order { $p.name }
}"""
FEW = """query few() {
  match { $p: Person { name: "p0001" } }
  return { $p.name as name, $p.big as big, $p.at as at, $p.v as v }
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadServer]:
    import omnigraph

    uri = str(tmp_path_factory.mktemp("answers") / "graph.omni")
    with omnigraph.init(uri, SCHEMA, settings=settings()) as graph:
        people = [
            {"name": f"p{n:04}", "age": n % 90, "big": 2**60 + n, "v": [0.5, n]}
            for n in range(PEOPLE)
        ]
        people[1]["at"] = "2026-04-14T10:00:00.500Z"
        graph.load({"Person": people})
    with ThreadServer(uri, engine=settings()) as running:
        yield running


@pytest.fixture(scope="module")
def local(server: ThreadServer) -> Graph:
    return server.state.graphs.find("default").graph


def ask(http: httpx.Client, text: str, accept: str | None = None, **headers: str) -> httpx.Response:
    if accept is not None:
        headers["Accept"] = accept
    return http.post("/query", json={"query": text}, headers=headers)


@pytest.mark.parametrize("text", [ALL, FEW], ids=["streamed", "whole"])
def test_all_forms_have_the_same_rows(http: httpx.Client, local: Graph, text: str) -> None:
    expected = json.loads(json.dumps(local.query(text).to_dict()))
    found = ask(http, text)
    assert found.headers["content-type"] == "application/json"
    assert found.json() == expected
    lines = ask(http, text, "application/x-ndjson")
    assert lines.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    first, *rows = [json.loads(line) for line in lines.text.splitlines()]
    assert first == {"kind": "metadata", **{k: v for k, v in expected.items() if k != "rows"}}
    assert rows == expected["rows"]
    arrow = ask(http, text, "application/vnd.apache.arrow.stream")
    table = pa.ipc.open_stream(arrow.content).read_all()
    assert table.to_pylist() == local.query(text).to_pylist()
    assert table.schema.metadata[b"graph_commit_id"].decode() == expected["graph_commit_id"]
    records = list(csv.reader(io.StringIO(ask(http, text, "text/csv").text)))
    assert records[0] == expected["columns"]
    assert len(records) == 1 + expected["row_count"]


def test_the_first_of_the_listed_forms_wins(http: httpx.Client) -> None:
    both = ask(http, FEW, "application/json, application/x-ndjson")
    assert both.headers["content-type"] == "application/json"
    none = ask(http, FEW, "text/html")
    assert (none.status_code, none.json()["code"]) == (406, "bad_request")
    assert ask(http, FEW, "text/html, */*;q=0.1").status_code == 200


@pytest.mark.parametrize("text", [ALL, FEW], ids=["streamed", "whole"])
def test_a_state_that_the_client_has_is_not_sent_again(http: httpx.Client, text: str) -> None:
    first = ask(http, text)
    commit = first.json()["graph_commit_id"]
    assert first.headers["etag"] == f'W/"{commit}"'
    for held in (first.headers["etag"], f'"x", "{commit}"', "*"):
        again = ask(http, text, **{"If-None-Match": held})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
    assert ask(http, text, **{"If-None-Match": 'W/"other"'}).status_code == 200


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@pytest.mark.parametrize("text", [ALL, FEW], ids=["streamed", "whole"])
def test_large_answers_are_compressed(http: httpx.Client, encoding: str, text: str) -> None:
    with http.stream(
        "POST", "/query", json={"query": text}, headers={"Accept-Encoding": encoding}
    ) as answer:
        raw = b"".join(answer.iter_raw())
    if text == FEW:
        assert "content-encoding" not in answer.headers, "a small body would not become smaller"
        return
    assert answer.headers["content-encoding"] == encoding
    assert "accept-encoding" in answer.headers["vary"]
    plain = gzip.decompress(raw) if encoding == "gzip" else zstd(raw)
    assert len(json.loads(plain)["rows"]) == PEOPLE
    assert len(raw) < len(plain) / 3


def zstd(data: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as opened:
        return bytes(opened.read())


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_request_bodies_are_decompressed_within_their_limit(
    http: httpx.Client, encoding: str
) -> None:
    def post(content: bytes, **headers: str) -> httpx.Response:
        headers = {"Content-Type": "application/json", **headers}
        return http.post("/query", content=content, headers=headers)

    pack = gzip.compress if encoding == "gzip" else pack_zstd
    body = json.dumps({"query": FEW}).encode()
    assert post(pack(body), **{"Content-Encoding": encoding}).json()["row_count"] == 1
    cut = post(pack(body)[:-6], **{"Content-Encoding": encoding})
    assert (cut.status_code, cut.json()["error"]) == (
        400,
        f"the body is not a whole {encoding} stream",
    )
    bomb = post(pack(b" " * 2_000_000 + body), **{"Content-Encoding": encoding})
    assert bomb.status_code == 413
    assert bomb.json()["resource_limit"] == {
        "resource": "request_body_bytes",
        "limit": 1_048_576,
        "actual": 1_048_577,
    }
    assert post(body, **{"Content-Encoding": "br"}).status_code == 415


def pack_zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))

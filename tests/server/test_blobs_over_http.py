"""Blobs over HTTP: ranges, conditions, and no byte read in vain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.lance_store.reads.blob_reads import StoredBlob
from omnigraph_testing.http_server import ThreadServer
from omnigraph_testing.workloads import settings

SCHEMA = """
node Person { name: String @key  photo: Blob?  note: String? }
edge Knows: Person -> Person { proof: Blob? }
"""
PHOTO = bytes(range(256)) * 40
LARGE = bytes(9_000_000)
WHERE = {"entity": "node", "type": "Person", "id": "ada", "property": "photo"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadServer]:
    uri = str(tmp_path_factory.mktemp("blobs") / "graph.omni")
    with omnigraph.init(uri, SCHEMA, settings=settings()) as graph:
        people = [
            {"name": "ada", "photo": PHOTO},
            {"name": "bob"},
            {"name": "cy", "photo": b""},
            {"name": "dan", "photo": LARGE},
        ]
        edges = [{"id": "k1", "src": "ada", "dst": "bob", "proof": b"proof"}]
        graph.apply({"Person": {"insert": people}, "Knows": {"insert": edges}})
    with ThreadServer(uri, engine=settings()) as running:
        yield running


@pytest.fixture(scope="module")
def local(server: ThreadServer) -> Graph:
    return server.state.graphs.find("default").graph


def blob(http: httpx.Client, method: str = "GET", **headers: str) -> httpx.Response:
    return http.request(
        method, "/blob", params=WHERE, headers={n.replace("_", "-"): v for n, v in headers.items()}
    )


def test_a_whole_blob(http: httpx.Client, local: Graph) -> None:
    answer = blob(http)
    assert answer.status_code == 200
    assert answer.content == PHOTO
    headers = answer.headers
    assert headers["content-type"] == "application/octet-stream"
    assert headers["content-length"] == str(len(PHOTO))
    assert headers["accept-ranges"] == "bytes"
    assert headers["omnigraph-snapshot-id"] == local.branches.show("main").head_commit_id
    tag = headers["etag"]
    assert tag.startswith('"')
    assert all(letter in "0123456789abcdef" for letter in tag.strip('"'))
    proof = http.get(
        "/blob", params={"entity": "edge", "type": "Knows", "id": "k1", "property": "proof"}
    )
    assert proof.content == b"proof"
    assert proof.headers["etag"] != tag


def test_a_large_blob_is_read_in_pieces(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    read = StoredBlob.read

    def counted(self: StoredBlob, offset: int = 0, length: int | None = None) -> bytes:
        found = read(self, offset, length)
        reads.append(len(found))
        return found

    monkeypatch.setattr(StoredBlob, "read", counted)
    answer = http.get("/blob", params={**WHERE, "id": "dan"})
    assert answer.content == LARGE
    assert reads == [4 << 20, 4 << 20, len(LARGE) - (8 << 20)]
    reads.clear()
    assert blob(http, "HEAD").status_code == 200
    assert reads == [], "a HEAD reads nothing"


@pytest.mark.parametrize(
    ("wanted", "expected", "told"),
    [
        ("bytes=0-3", PHOTO[:4], "bytes 0-3/10240"),
        ("bytes=10000-", PHOTO[10000:], "bytes 10000-10239/10240"),
        ("bytes=-5", PHOTO[-5:], "bytes 10235-10239/10240"),
        ("bytes=10239-99999", PHOTO[-1:], "bytes 10239-10239/10240"),
    ],
)
def test_a_range(http: httpx.Client, wanted: str, expected: bytes, told: str) -> None:
    answer = blob(http, Range=wanted)
    assert answer.status_code == 206
    assert answer.content == expected
    assert answer.headers["content-range"] == told
    assert answer.headers["content-length"] == str(len(expected))


@pytest.mark.parametrize("wanted", ["bytes=0-1,3-4", "bytes=5-2", "bytes=x", "lines=0-1"])
def test_a_range_that_is_ignored(http: httpx.Client, wanted: str) -> None:
    answer = blob(http, Range=wanted)
    assert (answer.status_code, len(answer.content)) == (200, len(PHOTO))


def test_a_range_outside_of_the_blob(http: httpx.Client) -> None:
    answer = blob(http, Range="bytes=10240-10250")
    assert (answer.status_code, answer.json()["code"]) == (416, "bad_request")
    assert answer.headers["content-range"] == "bytes */10240"
    assert answer.json()["blob_range"] == {"start": 10240, "end": 10251, "length": 10240}
    empty = http.get("/blob", params={**WHERE, "id": "cy"}, headers={"Range": "bytes=0-0"})
    assert (empty.status_code, empty.headers["content-range"]) == (416, "bytes */0")
    assert http.get("/blob", params={**WHERE, "id": "cy"}).content == b""
    assert blob(http, Range="bytes=-0").status_code == 416


def test_conditions(http: httpx.Client) -> None:
    tag = blob(http).headers["etag"]
    other = blob(http, If_Match='"other"')
    assert (other.status_code, other.json()["code"]) == (412, "conflict")
    assert other.headers["etag"] == tag
    assert other.headers["omnigraph-snapshot-id"]
    for held in (f"W/{tag}", "rubbish"):
        assert blob(http, If_Match=held).status_code == 412
    for held in (tag, "*", f'"other", {tag}'):
        assert blob(http, If_Match=held).status_code == 200
    for held in (tag, f"W/{tag}", "*"):
        same = blob(http, If_None_Match=held)
        assert (same.status_code, same.content) == (304, b"")
        assert same.headers["etag"] == tag
        assert same.headers["content-length"] == str(len(PHOTO))
        assert same.headers["omnigraph-snapshot-id"]
    assert blob(http, If_None_Match='"other"').status_code == 200
    assert blob(http, If_Match='"other"', If_None_Match=tag).status_code == 412
    assert blob(http, Range="bytes=0-3", If_Range=tag).status_code == 206
    for held in ('"other"', f"W/{tag}", f'{tag}, "other"'):
        assert blob(http, Range="bytes=0-3", If_Range=held).status_code == 200


def test_head_has_the_headers_without_the_body(http: httpx.Client) -> None:
    answer = blob(http, "HEAD", Range="bytes=0-3")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == str(len(PHOTO))
    assert answer.headers["etag"] == blob(http).headers["etag"]
    missing = http.head("/blob", params={**WHERE, "id": "nobody"})
    assert (missing.status_code, missing.content) == (404, b"")
    assert http.get("/healthz").status_code != 500, "the connection is still usable"


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"id": "nobody"}, 404),
        ({"id": "bob"}, 404),
        ({"property": "note"}, 400),
        ({"property": "nope"}, 400),
        ({"entity": "edge"}, 400),
        ({"entity": "thing"}, 400),
        ({"type": "Nope"}, 404),
        ({"branch": "nope"}, 404),
        ({"branch": "main", "snapshot": "main"}, 400),
        ({"id": None}, 400),
    ],
    ids=str,
)
def test_wrong_blobs(http: httpx.Client, change: dict[str, Any], status: int) -> None:
    params = {name: value for name, value in {**WHERE, **change}.items() if value is not None}
    answer = http.get("/blob", params=params)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]


def test_the_tag_follows_the_content(http: httpx.Client, local: Graph) -> None:
    first = blob(http)
    local.apply({"Person": {"upsert": [{"name": "ada", "photo": b"another"}]}})
    second = blob(http)
    assert second.content == b"another"
    assert second.headers["etag"] != first.headers["etag"]
    old = http.get("/blob", params={**WHERE, "snapshot": first.headers["omnigraph-snapshot-id"]})
    assert old.content == PHOTO
    assert old.headers["etag"] == first.headers["etag"]

"""Blobs over HTTP: ranges, conditions, and no byte read in vain."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import ExternalBlobUnavailable, InvalidArgument
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


SAFE = "https://pictures.example.com/people"
"""A base to which the server sends readers."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that the writer may name and the server may not."""
    found = tmp_path_factory.mktemp("files")
    (found / "secret.txt").write_bytes(b"secret of the host")
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[ThreadServer]:
    uri = str(tmp_path_factory.mktemp("blobs") / "graph.omni")
    engine = settings().allowing([f"file://{folder}", SAFE])
    with omnigraph.init(uri, SCHEMA, settings=engine) as graph:
        people = [
            {"name": "ada", "photo": PHOTO},
            {"name": "bob"},
            {"name": "cy", "photo": b""},
            {"name": "dan", "photo": LARGE},
            {"name": "web", "photo": f"{SAFE}/a%20b.jpg"},
            {"name": "file", "photo": f"file://{folder}/secret.txt"},
        ]
        edges = [{"id": "k1", "src": "ada", "dst": "bob", "proof": b"proof"}]
        graph.apply({"Person": {"insert": people}, "Knows": {"insert": edges}})
    # The settings of the process that serves allow the folder, but not for clients of a server.
    engine = settings().allowing([f"file://{folder}"])
    with ThreadServer(uri, engine=engine, external_blobs=(("default", SAFE),)) as running:
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


# External blobs


def of(http: httpx.Client, name: str, method: str = "GET", **headers: str) -> httpx.Response:
    return http.request(method, "/blob", params={**WHERE, "id": name}, headers=headers)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_readers_are_sent_to_an_external_blob(
    http: httpx.Client, local: Graph, method: str
) -> None:
    answer = of(http, "web", method, **{"If-None-Match": "*", "Range": "bytes=0-1"})
    assert answer.status_code == 302
    assert answer.headers["location"] == f"{SAFE}/a%20b.jpg"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-length"] == "0"
    assert answer.headers["omnigraph-snapshot-id"] == local.snapshot().graph_commit_id
    assert "etag" not in answer.headers
    assert answer.content == b""


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_file_of_the_host_is_neither_sent_nor_named(
    http: httpx.Client, folder: Path, method: str
) -> None:
    answer = of(http, "file", method)
    assert answer.status_code == 424
    assert "location" not in answer.headers
    told = f"{answer.headers} {answer.text}"
    assert str(folder) not in told
    assert "secret" not in told
    if method == "GET":
        body = answer.json()
        assert "code" not in body
        assert body["external_blob_source"] == {"uri": "", "reason": "not_allowed"}


@pytest.mark.parametrize(
    "uri",
    [
        "https://pictures.example.com/people-evil/a.jpg",
        f"{SAFE}/../a.jpg",
        f"{SAFE}/%2e%2e/a.jpg",
        "https://user:pw@pictures.example.com/people/a.jpg",
        "HTTPS://pictures.example.com/people/a.jpg",
        f"{SAFE}/a.jpg?x",
        "javascript:alert(1)",
        "file:///etc/passwd",
    ],
)
def test_clients_write_allowed_addresses_only(http: httpx.Client, folder: Path, uri: str) -> None:
    text = 'query put($p: Blob) { insert Person { name: "new", photo: $p } }'
    line = b'{"type":"Person","data":{"name":"new","photo":"%s"}}' % uri.encode()
    answers = [
        http.post("/mutate", json={"query": text, "params": {"p": uri}}),
        http.post("/load/ndjson", content=line, headers={"Content-Type": "application/x-ndjson"}),
        http.post(
            "/apply", json={"edits": {"Person": {"insert": [{"name": "new", "photo": uri}]}}}
        ),
        http.post("/mutate", json={"query": text, "params": {"p": f"file://{folder}/secret.txt"}}),
    ]
    for answer in answers:
        assert answer.status_code == 400, answer.text
        assert answer.json()["code"] == "bad_request"
        assert "pw@" not in answer.text


def test_a_client_follows_no_redirect_unless_it_names_the_base(
    server: ThreadServer, folder: Path
) -> None:
    with omnigraph.open(f"{server.url}/graphs/default") as graph:
        found = graph.blob("node", "Person", "web", "photo")
        assert isinstance(found, omnigraph.ExternalBlob)
        assert found.uri == f"{SAFE}/a%20b.jpg"
        with pytest.raises(ExternalBlobUnavailable, match="external_blobs=") as caught:
            found.read()
        assert caught.value.reason == "not_allowed"
        with pytest.raises(ExternalBlobUnavailable) as hidden:
            graph.blob("node", "Person", "file", "photo")
        assert hidden.value.uri == ""
        assert str(folder) not in str(hidden.value)


class Pages(BaseHTTPRequestHandler):
    """A web server with one object, one redirect to it, and ranges on request."""

    ranges = False

    def do_GET(self) -> None:
        if self.path == "/pictures/moved":
            self.send_response(302)
            self.send_header("Location", "/pictures/a%20b")
            self.end_headers()
            return
        found = self.path == "/pictures/a%20b"
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        part = self.ranges and found and wanted
        first, last = (int(wanted[1]), int(wanted[2])) if part and wanted else (0, 9)
        content = b"0123456789"[first : last + 1] if found else b""
        self.send_response(206 if part else 200 if found else 404)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET

    def log_message(self, *_: Any) -> None:
        return


@pytest.mark.parametrize("ranges", [False, True])
def test_a_client_reads_from_a_web_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranges: bool
) -> None:
    monkeypatch.setattr(Pages, "ranges", ranges)
    web = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{web.server_port}/pictures"
    uri = str(tmp_path / "graph.omni")
    omnigraph.init(uri, SCHEMA, settings=settings()).close()
    with ThreadServer(uri, engine=settings(), external_blobs=(("default", base),)) as running:
        address = f"{running.url}/graphs/default"
        with omnigraph.open(address, external_blobs=[base]) as graph:
            for name in ("a%20b", "moved", "none"):
                rows = [{"name": name, "photo": f"{base}/{name}"}]
                graph.apply({"Person": {"insert": rows}})
            found = graph.blob("node", "Person", "a%20b", "photo")
            assert (found.size, found.read(), found.read(3, 4)) == (10, b"0123456789", b"3456")
            for name, reason in (("moved", "not_readable"), ("none", "not_found")):
                with pytest.raises(ExternalBlobUnavailable) as caught:
                    graph.blob("node", "Person", name, "photo").read()
                assert caught.value.reason == reason
    web.shutdown()
    web.server_close()


def test_a_server_does_not_start_with_a_wrong_base(tmp_path: Path) -> None:
    for base in ("file:///data", "https://user:pw@host/a", "ftp://host/a"):
        with pytest.raises(InvalidArgument, match="external blobs"):
            ThreadServer(str(tmp_path), external_blobs=(("default", base),))

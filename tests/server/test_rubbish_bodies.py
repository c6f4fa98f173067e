"""Bodies of any bytes: each is refused with the envelope, and none reaches the graph."""

from __future__ import annotations

import io
import json
import tarfile
from typing import Any

import httpx
import pytest

from omnigraph_testing.http_server import ThreadServer

ADD = "query add($name: String) { insert Person { name: $name } }"
READ = "match { $p: Person } return { $p.name as name }"
LINE = b'{"type": "Note", "data": {"id": "tar", "text": "x"}}\n'
LEVELS = (100, 900, 990, 50_000)
NDJSON = {"Content-Type": "application/x-ndjson"}
JSON = {"Content-Type": "application/json"}
TO_AGENTS = {**JSON, "Accept": "application/json, text/event-stream"}


def refused(answer: httpx.Response) -> str:
    assert answer.status_code == 400, answer.text
    body = answer.json()
    assert body["code"] == "bad_request"
    assert body["request_id"] == answer.headers["x-request-id"]
    return str(body["error"])


@pytest.fixture(autouse=True)
def _unchanged(http: httpx.Client) -> Any:
    before = http.get("/commits").json()
    yield
    assert http.get("/commits").json() == before


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/mutate", f'{{"query": "{ADD}", "params": {{"name": DEEP}}}}'),
        ("/query", '{"query": 1, "extra": DEEP}'),
        ("/apply", '{"edits": {"Note": {"insert": [{"text": DEEP}]}}}'),
        ("/branches/merge", '{"source": "x", "resolutions": [{"a": DEEP}]}'),
        ("/schema/apply", '{"plan": {"a": DEEP}}'),
    ],
)
def test_json_that_is_nested_too_deeply(
    http: httpx.Client, path: str, body: str, opening: str, closing: str, level: int
) -> None:
    deep = f"{opening * level}1{closing * level}"
    refused(http.post(path, content=body.replace("DEEP", deep), headers=JSON))


@pytest.mark.parametrize("level", LEVELS)
def test_a_message_of_an_agent_that_is_nested_too_deeply(http: httpx.Client, level: int) -> None:
    params = f'{{"name": "graph_query", "arguments": {{"query": {"[" * level}{"]" * level}}}}}'
    message = f'{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {params}}}'
    answer = http.post("/mcp", content=message, headers=TO_AGENTS)
    assert answer.status_code in (200, 400), answer.text
    assert answer.json().get("error") or answer.json()["result"]["isError"]


@pytest.mark.parametrize(
    "line",
    [
        '{"type": "Note", "data": {"\\ud800": 1, "text": "x"}}',
        '{"type": "Person", "data": {"name": "a", "age": "\\udc00"}}',
        '{"type": "Note", "data": {"text": "\\ud800"}}',
        '{"type": "\\ud800", "data": {}}',
        '{"edge": "Knows", "from": "\\ud800", "to": "ada"}',
    ],
)
def test_half_of_a_surrogate_pair(http: httpx.Client, line: str) -> None:
    """The message repeats it as an escape, because an answer is UTF-8."""
    assert "surrogate" in refused(
        http.post("/load/ndjson", content=line, headers=NDJSON)
    ) or "\\ud" in refused(http.post("/load/ndjson", content=line, headers=NDJSON))
    later = {**NDJSON, "Prefer": "respond-async"}
    answer = http.post("/load/ndjson", content=line, headers=later)
    if answer.status_code == 202:
        place = f"/operations/{answer.json()['operation_id']}"
        for _ in range(500):
            operation = http.get(place).json()
            if operation["status"] not in ("queued", "running"):
                break
        assert (operation["status"], operation["error"]["code"]) == ("failed", "bad_request")
    for meta in ({}, {"_meta": {}}):  # with `_meta`, the SDK answers
        params = {"name": "graph_load", "arguments": {"data": line}, **meta}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        told = http.post("/mcp", json=message, headers=TO_AGENTS)
        assert told.json()["result"]["structuredContent"]["status"] == 400, told.text


def archive(*members: tuple[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in members:
            header = tarfile.TarInfo(name)
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))
    return made.getvalue()


def listing(*names: str) -> bytes:
    return json.dumps([{"file": name} for name in names]).encode()


def sparse() -> bytes:
    header = tarfile.TarInfo("sparse")
    header.type = tarfile.GNUTYPE_SPARSE
    return header.tobuf(tarfile.GNU_FORMAT) + bytes(1024)


SPARSE = sparse()
DEEP = b'{"sources": [], "details": {"a": ' + b"[" * 50_000 + b"]" * 50_000 + b"}}"


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (archive(("sources.json", listing("..")), ("..", LINE)), "names no file"),
        (archive(("sources.json", listing("a/..")), ("a/..", LINE)), "names no file"),
        (archive(("sources.json", listing(".")), (".", LINE)), "names no file"),
        (archive(("sources.json", listing("/")), ("/", LINE)), "names no file"),
        (archive(("sources.json", listing("x" * 300)), ("x" * 300, LINE)), "names no file"),
        (archive(("sources.json", listing("a")), ("a", LINE), ("a", LINE)), "two files 'a'"),
        (archive(("sources.json", DEEP), ("a", LINE)), "does not fit"),
        (archive(("sources.json", b'["\xff"]'), ("a", LINE)), "does not fit"),
        (archive(("sources.json", listing("a"))), "has no 'a'"),
        (archive(("\udcff", LINE)), "not \\udcff"),
        (archive(("a", LINE)), "sources.json"),
        (archive(("sources.json", listing("a")), ("a", LINE))[:1600], "whole tar archive"),
        (archive(("sources.json", listing("a")), ("b", LINE), ("a", LINE)), "has no file 'b'"),
        (archive(("x" * 70_000, LINE)), "shorter names"),
        (SPARSE, "only whole files"),
        (b"", "whole tar archive"),
        (bytes(10_240), "not complete"),
    ],
)
def test_archives_that_are_none(http: httpx.Client, sent: bytes, told: str) -> None:
    answer = http.post("/load/files", content=sent, headers={"Content-Type": "application/x-tar"})
    assert told in refused(answer)


@pytest.mark.parametrize(
    "details",
    [
        '{"carried": 5}',
        '{"carried": {"stream": {}}}',
        '{"request": {"fingerprint": "x"}}',
        '{"pipeline": 5}',
        '{"pipeline": {"lists": 5}}',
        f'{{"a": {{"b": {"[" * 40}{"]" * 40}}}}}',
        f'{{"a": {"[" * 5_000}{"]" * 5_000}}}',
        "[]",
    ],
)
def test_details_that_a_reader_could_not_use(http: httpx.Client, details: str) -> None:
    answer = http.post("/load/ndjson", params={"details": details}, content=LINE, headers=NDJSON)
    assert "details" in refused(answer)


@pytest.mark.parametrize("key", ["", "a b", "é", "x" * 129, "\0"])
def test_keys_in_a_body_follow_the_rule_of_the_header(http: httpx.Client, key: str) -> None:
    sent = {"query": ADD, "params": {"name": "keyed"}, "idempotency_key": key}
    assert "1 to 128 visible ASCII" in refused(http.post("/mutate", json=sent))


def test_two_keys_name_no_request(http: httpx.Client) -> None:
    sent = {"query": ADD, "params": {"name": "keyed"}}
    twice = http.post(
        "/mutate", json=sent, headers=[("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    )
    assert "several Idempotency-Key" in refused(twice)
    both = {**sent, "idempotency_key": "a"}
    other = http.post("/mutate", json=both, headers={"Idempotency-Key": "b"})
    assert "two keys" in refused(other)


def test_the_server_goes_on(server: ThreadServer, http: httpx.Client) -> None:
    assert http.post("/query", json={"query": READ}).status_code == 200
    with server.client() as client:
        assert client.get("/readyz").json()["ready"] is True

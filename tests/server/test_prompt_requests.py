"""Requests that are answered without a task: whole, in parts, several in one packet, and broken."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from typing import Any

import httpx
import pytest

from omnigraph import failpoints
from omnigraph.server.application import HttpApplication
from omnigraph.server.replies import WholeAnswer, head_lines
from omnigraph_testing.http_server import ThreadServer, wait_until

COUNT = {"query": "match { $p: Person } return { count($p) as n }"}
ONE = "query one($name: String) { match { $p: Person { name: $name } } return { $p.name as name } }"


@pytest.fixture
def prompt(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each request that was whole was answered at once. Every read counts as fast."""
    monkeypatch.setattr("omnigraph.server.application._INLINE_SECONDS", 60.0)
    found: list[bool] = []
    answer_now = HttpApplication.answer_now

    def noted(self: HttpApplication, scope: Any, body: bytes) -> Any:
        answer = answer_now(self, scope, body)
        found.append(isinstance(answer, WholeAnswer))
        return answer

    monkeypatch.setattr(HttpApplication, "answer_now", noted)
    return found


def connect(server: ThreadServer) -> socket.socket:
    host, _, port = server.url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def request(body: dict[str, Any], more: str = "", version: str = "1.1") -> bytes:
    content = json.dumps(body).encode()
    head = (
        f"POST /graphs/default/query HTTP/{version}\r\nHost: x\r\n{more}"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def answers(connection: socket.socket, count: int) -> list[tuple[int, dict[str, str], Any]]:
    """(status, headers, body) of the next answers on a connection."""
    found: list[tuple[int, dict[str, str], Any]] = []
    data = b""
    while len(found) < count:
        head, ended, rest = data.partition(b"\r\n\r\n")
        if ended:
            first, *lines = head.decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines)
            size = int(headers.get("content-length", "0"))
            if len(rest) >= size:
                found.append((int(first.split()[1]), headers, rest[:size]))
                data = rest[size:]
                continue
        more = connection.recv(65536)
        assert more, data
        data += more
    assert data == b""
    return found


def warm(http: httpx.Client, body: dict[str, Any]) -> None:
    for _ in range(3):
        assert http.post("/query", json=body).status_code == 200


def test_reads_that_were_fast_are_answered_at_once(http: httpx.Client, prompt: list[bool]) -> None:
    first = http.post("/query", json={"query": ONE, "params": {"name": "at once 0"}})
    for number in range(1, 20):
        asked = {"query": ONE, "params": {"name": f"at once {number}"}}
        later = http.post("/query", json=asked)
        assert later.json() == first.json()
    assert prompt == [False] + [True] * 19
    same = set(first.headers) - {"x-request-id", "date"}
    assert {n: later.headers[n] for n in same} == {n: first.headers[n] for n in same}


def test_several_requests_in_one_packet(server: ThreadServer, http: httpx.Client) -> None:
    """One of them waits for a thread, and the others come after it, in their order."""
    warm(http, COUNT)
    slow = {"query": 'match { $p: Person { name: "unseen" } } return { $p.age as age }'}
    with connect(server) as connection:
        asked = [COUNT, slow, COUNT, {**COUNT, "branch": "nope"}, COUNT]
        marks = [f"X-Request-Id: n{number}\r\n" for number in range(len(asked))]
        parts = [request(body, mark) for body, mark in zip(asked, marks, strict=True)]
        connection.sendall(b"".join(parts))
        found = answers(connection, len(asked))
    assert [status for status, _, _ in found] == [200, 200, 200, 404, 200]
    assert [headers["x-request-id"] for _, headers, _ in found] == ["n0", "n1", "n2", "n3", "n4"]
    assert json.loads(found[3][2])["request_id"] == "n3"
    assert found[0][2] == found[2][2] == found[4][2]


@pytest.mark.parametrize(
    "behind",
    [
        b"RUBBISH\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 70_000,
        b"POST /graphs/default/mutate HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["rubbish", "headers", "chunk"],
)
def test_rubbish_behind_a_write_is_not_its_answer(
    server: ThreadServer, http: httpx.Client, behind: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that reads a 400 believes that nothing was written."""
    held, go_on = threading.Event(), threading.Event()

    def hold(name: str) -> None:
        if name == "commit.after_stage":
            held.set()
            assert go_on.wait(30)

    monkeypatch.setattr(failpoints, "hit", hold)
    write = request({"query": 'insert Note { text: "n" }'}).replace(b"/query", b"/mutate", 1)
    with connect(server) as connection:
        connection.sendall(write)
        assert held.wait(30)
        connection.sendall(behind)
        time.sleep(0.2)
        go_on.set()
        ((status, _, content),) = answers(connection, 1)
        assert (status, json.loads(content)["affected_nodes"]) == (200, 1)
        assert connection.recv(65536) == b""


def test_a_body_that_comes_byte_by_byte(server: ThreadServer, http: httpx.Client) -> None:
    warm(http, COUNT)
    with connect(server) as connection:
        for byte in request(COUNT):
            connection.sendall(bytes([byte]))
        ((status, _, content),) = answers(connection, 1)
    assert status == 200
    assert content == http.post("/query", json=COUNT).content


def test_a_connection_that_the_client_closes(server: ThreadServer, http: httpx.Client) -> None:
    warm(http, COUNT)
    for asked in (request(COUNT, "Connection: close\r\n"), request(COUNT, version="1.0")):
        with connect(server) as connection:
            connection.sendall(asked)
            ((status, headers, _),) = answers(connection, 1)
            assert (status, headers["connection"]) == (200, "close")
            assert connection.recv(1) == b""


def test_a_client_that_waits_for_100_gets_it(server: ThreadServer, http: httpx.Client) -> None:
    warm(http, COUNT)
    head, _, body = request(COUNT, "Expect: 100-continue\r\n").partition(b"\r\n\r\n")
    with connect(server) as connection:
        connection.sendall(head + b"\r\n\r\n")
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert answers(connection, 1)[0][0] == 200


def test_a_client_that_leaves_amid_its_body_has_a_line(
    server: ThreadServer, http: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    def is_logged() -> bool:
        fields = [record.fields for record in caplog.records]  # type: ignore[attr-defined]
        return any(f["request_id"] == "left" and f["status"] == 400 for f in fields)

    with caplog.at_level(logging.INFO, "omnigraph.access"):
        with connect(server) as connection:
            connection.sendall(request(COUNT, "X-Request-Id: left\r\n")[:-5])
        wait_until(is_logged)


def test_long_and_packed_answers_of_fast_reads(http: httpx.Client, prompt: list[bool]) -> None:
    """What cannot be sent at once goes on in a task."""
    names = [{"name": f"prompt {number} {'x' * 40}"} for number in range(1500)]
    lines = "".join(json.dumps({"type": "Person", "data": name}) + "\n" for name in names)
    assert http.post("/load", json={"data": lines}).status_code == 200
    for limit, encoding in ((1400, "gzip"), (300, "gzip"), (300, "identity")):
        text = "match { $p: Person } return { $p.name as name } order { $p.name } limit "
        for _ in range(3):
            answer = http.post(
                "/query",
                json={"query": f"{text}{limit}"},
                headers={"Accept-Encoding": encoding},
            )
            assert len(answer.json()["rows"]) == limit
            assert answer.headers.get("content-encoding", "identity") == encoding
    assert len(prompt) == 9


HEAD = b"POST /graphs/default/query HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (HEAD + b"X: ", b"x"),  # one value
        (HEAD, b"a: b\r\n"),  # many headers
        (b"GET /", b"x"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"a: b\r\n"),  # trailers
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;", b"x"),
    ],
    ids=("value", "headers", "address", "trailers", "chunk"),
)
def test_headers_without_an_end_are_refused(
    server: ThreadServer, begin: bytes, more: bytes
) -> None:
    """Nothing else bounds them, and they come before the token."""
    part = more * (16_384 // len(more))
    with connect(server) as connection:
        connection.sendall(begin)
        data = b""
        for _ in range(1000):
            try:
                connection.sendall(part)
            except OSError:
                break
        else:
            pytest.fail("the server took all of it")
        # The rest of what was sent may reset the connection before the answer is read.
        try:
            data = connection.recv(65536)
        except OSError:
            return
    assert not data or data.startswith(b"HTTP/1.1 4"), data


def test_the_refusal_of_long_headers_has_the_envelope(server: ThreadServer) -> None:
    with connect(server) as connection:
        connection.sendall(HEAD + b"X: " + b"x" * 40_000)
        wait_until(lambda: any(each._held for each in server.worker.server_state.connections))
        connection.sendall(b"x" * 40_000)
        ((status, headers, content),) = answers(connection, 1)
    assert (status, headers["connection"]) == (400, "close")
    envelope = json.loads(content)
    assert (envelope["code"], envelope["request_id"]) == (
        "bad_request",
        headers["x-request-id"].upper(),
    )
    assert "65,536" in envelope["error"]


def test_long_headers_that_end_are_read(http: httpx.Client) -> None:
    answer = http.post("/query", json=COUNT, headers={"X-Long": "x" * 60_000})
    assert answer.status_code == 200


def test_other_protocols_are_not_spoken(server: ThreadServer) -> None:
    for protocol in ("websocket", "h2c"):
        upgrade = {
            "Connection": "Upgrade",
            "Upgrade": protocol,
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Version": "13",
        }
        with server.client() as client:
            answer = client.get("/nowhere", headers=upgrade)
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
            assert client.get("/healthz", headers=upgrade).status_code == 200


def test_no_header_begins_another_line() -> None:
    assert head_lines([(b"a", b"1"), (b"b", b"2")]) == b"a: 1\r\nb: 2\r\n"
    for bad in (b"1\r\nx: y", b"1\n", b"1\r"):
        with pytest.raises(ValueError, match="line break"):
            head_lines([(b"a", bad)])

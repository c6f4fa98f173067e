"""An S3 endpoint on 127.0.0.1: moto in a child process, behind a proxy.

The proxy counts requests, can delay them as a distant store does, and can drop an answer after the
store has carried out the request. The child ends when its standard input closes, so it ends with
the test process even when that is killed.
"""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

BUCKET = "graphs"

_MOTO = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding"})


@dataclass(frozen=True, slots=True)
class Request:
    """One request to the store, with the status of its answer."""

    method: str
    """A listing is `LIST`."""
    key: str
    """The object's key, the prefix of a listing, or the keys of a bulk delete."""
    conditional: bool
    """A put-if-absent."""
    status: int
    session_token: str | None = None


Matches = Callable[[Request], bool]


class S3Server:
    """A running endpoint. Use it as a context manager, or call `stop`."""

    def __init__(self, delay_seconds: float = 0.0) -> None:
        self._moto = subprocess.Popen(
            [sys.executable, "-c", _MOTO],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._moto.stdout is not None
        line = self._moto.stdout.readline()
        assert line.strip().isdigit(), "moto did not start"
        self._moto_port = int(line)
        self._proxy = _Proxy(self._moto_port, delay_seconds)
        self.create_bucket(BUCKET)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._proxy.server_address[1]}"

    def environment(self, endpoint_variable: str = "AWS_ENDPOINT_URL") -> dict[str, str]:
        """The environment of a process that shall use this endpoint and no other."""
        return {
            endpoint_variable: self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "AWS_S3_FORCE_PATH_STYLE": "true",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def create_bucket(self, name: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._moto_port, timeout=30)
        try:
            connection.request("PUT", f"/{name}")
            assert connection.getresponse().status == 200
        finally:
            connection.close()

    @contextmanager
    def recorded(self) -> Iterator[list[Request]]:
        """Every request answered inside the block, in order."""
        seen: list[Request] = []
        with self._proxy.lock:
            self._proxy.recorders.append(seen)
        try:
            yield seen
        finally:
            with self._proxy.lock:
                self._proxy.recorders.remove(seen)

    @contextmanager
    def answers_lost(self, matches: Matches, times: int = 1) -> Iterator[list[Request]]:
        """Close the connection instead of answering the first `times` matching requests.

        The store has carried them out. Yields the requests whose answer was lost.
        """
        loss = _Loss(matches, times, [])
        with self._proxy.lock:
            self._proxy.losses.append(loss)
        try:
            yield loss.lost
        finally:
            with self._proxy.lock:
                self._proxy.losses.remove(loss)

    @contextmanager
    def refused(self, matches: Matches, status: int = 403) -> Iterator[list[Request]]:
        """Answer every matching request with `status`; the store never sees it."""
        refusal = _FaultAnswer(matches, status, [])
        with self._proxy.lock:
            self._proxy.refusals.append(refusal)
        try:
            yield refusal.refused
        finally:
            with self._proxy.lock:
                self._proxy.refusals.remove(refusal)

    def stop(self) -> None:
        self._proxy.stop()
        assert self._moto.stdin is not None
        self._moto.stdin.close()
        self._moto.wait(timeout=30)
        assert self._moto.stdout is not None
        self._moto.stdout.close()

    def __enter__(self) -> S3Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def count_by_method(requests: list[Request]) -> Counter[str]:
    return Counter(request.method for request in requests)


def kind_of(request: Request) -> str:
    """What a request is for, from its method and key: `PUT table data`, `LIST intents`."""
    for pattern, name in _PLACES:
        if re.search(pattern, request.key):
            return f"{request.method} {name}"
    return f"{request.method} {request.key}"


_PLACES = (
    (r"__recovery", "intents"),
    (r"__schema/", "schema"),
    (r"__history/", "history"),
    (r"_refs/", "refs"),
    (r"__manifest/.*_versions", "manifest version"),
    (r"__manifest/.*data/", "manifest data"),
    (r"__manifest/", "manifest other"),
    (r"(nodes|edges)/.*_versions", "table version"),
    (r"(nodes|edges)/.*_transactions/", "table transaction"),
    (r"(nodes|edges)/.*_deletions/", "table deletions"),
    (r"(nodes|edges)/.*_indices/", "table index"),
    (r"(nodes|edges)/.*data/", "table data"),
)


@dataclass
class _Loss:
    matches: Matches
    left: int
    lost: list[Request]


@dataclass
class _FaultAnswer:
    matches: Matches
    status: int
    refused: list[Request]


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True
    # A handler thread ends when its client closes the connection, and clients keep theirs open.
    block_on_close = False
    # Lance opens many connections at once when it deletes; a full backlog costs seconds each.
    request_queue_size = 256

    def __init__(self, moto_port: int, delay_seconds: float) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.moto_port = moto_port
        self.delay_seconds = delay_seconds
        self.lock = threading.Lock()
        self.recorders: list[list[Request]] = []
        self.losses: list[_Loss] = []
        self.refusals: list[_FaultAnswer] = []
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()

    def handle_error(self, request: object, client_address: object) -> None:
        """A killed client leaves a broken connection. That is no error."""

    def refusal_for(self, request: Request) -> int | None:
        with self.lock:
            for refusal in self.refusals:
                if refusal.matches(request):
                    refusal.refused.append(request)
                    return refusal.status
        return None

    def is_answer_lost(self, request: Request) -> bool:
        with self.lock:
            for recorder in self.recorders:
                recorder.append(request)
            for loss in self.losses:
                if loss.left and loss.matches(request):
                    loss.left -= 1
                    loss.lost.append(request)
                    return True
        return False


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Proxy

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._upstream = http.client.HTTPConnection("127.0.0.1", self.server.moto_port, timeout=60)

    def finish(self) -> None:
        self._upstream.close()
        super().finish()

    def log_message(self, *_: object) -> None:
        """No log, because the recorders have every request."""

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.server.delay_seconds:
            time.sleep(self.server.delay_seconds)
        refusal = self.server.refusal_for(_describe(self, body, 0))
        if refusal is not None:
            self._answer(refusal, [], b"")
            return
        headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP_BY_HOP}
        self._upstream.request(self.command, self.path, body=body, headers=headers)
        response = self._upstream.getresponse()
        data = response.read()
        if self.server.is_answer_lost(_describe(self, body, response.status)):
            self.close_connection = True
            return
        self._answer(response.status, response.getheaders(), data)

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
        self.send_response_only(status)
        lengths = [v for k, v in headers if k.lower() == "content-length"]
        for name, value in headers:
            if name.lower() not in _HOP_BY_HOP | {"content-length"}:
                self.send_header(name, value)
        is_head = self.command == "HEAD" and lengths
        self.send_header("Content-Length", lengths[0] if is_head else str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _forward


def _describe(handler: _Handler, body: bytes, status: int) -> Request:
    parts = urlsplit(handler.path)
    query = parse_qs(parts.query)
    _, _, key = unquote(parts.path).lstrip("/").partition("/")
    method = handler.command
    if method == "GET" and not key:
        method, key = "LIST", query.get("prefix", [""])[0]
    if method == "POST" and "delete" in parse_qs(parts.query, keep_blank_values=True):
        method, key = "DELETE", _deleted_keys(body)
    return Request(
        method,
        key,
        conditional="If-None-Match" in handler.headers,
        status=status,
        session_token=handler.headers.get("x-amz-security-token"),
    )


def _deleted_keys(body: bytes) -> str:
    """A bulk delete names its keys in the body."""
    return " ".join(re.findall(r"<Key>(.*?)</Key>", body.decode()))

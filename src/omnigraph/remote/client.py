"""Sends the requests of operations to a server and waits for the answers."""

from __future__ import annotations

import socket
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import version
from typing import Any, Self, TypeVar

import httpx

from omnigraph.errors import GraphClosed, OmnigraphError, ResourceLimit
from omnigraph.remote.address import RemoteAddress
from omnigraph.remote.attempts import Attempts, client_headers, cut_off, http_headers
from omnigraph.remote.exchanges import Exchange, NextChunk, RemoteRequest
from omnigraph.settings.models import ClientSettings
from omnigraph.values.clock import SYSTEM_CLOCK, Clock

_R = TypeVar("_R")

_CHUNK = 256 * 1024
_LOOK_SECONDS = 0.02
_CONNECTED = ("connection.connect_tcp.complete", "connection.start_tls.complete")


class ReceivedAnswer:
    """An answer below 400, read at once or in chunks."""

    def __init__(self, client: Client, response: httpx.Response) -> None:
        self._client = client
        self._response = response
        self._chunks: Iterator[bytes] | None = None
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers

    def next_chunk(self) -> bytes:
        return next(self.rest(), b"")

    def content(self) -> bytes:
        if self._response.is_stream_consumed and self._chunks is None:
            return self._response.content
        return b"".join(self.rest())

    def rest(self) -> Iterator[bytes]:
        if self._chunks is None:
            self._chunks = self._read()
        return self._chunks

    def _read(self) -> Iterator[bytes]:
        try:
            yield from self._response.iter_bytes(_CHUNK)
        except httpx.TransportError as error:
            raise cut_off(error, self._client.server) from error
        finally:
            self._response.close()

    def repeat(self, request: RemoteRequest) -> Iterator[bytes]:
        return self._client.send(request).rest()


class Client:
    """Connections to one graph of one server. Threads may share it."""

    def __init__(
        self,
        address: RemoteAddress,
        token: str | None,
        settings: ClientSettings,
        clock: Clock = SYSTEM_CLOCK,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.address = address
        self.server = address.server
        self._settings = settings
        self._clock = clock
        self._token = token
        self._transport = transport
        self._lock = threading.Lock()
        self._alone: httpx.Client | None = None
        self._http: httpx.Client | None = self._make(
            httpx.Limits(max_connections=settings.connections)
        )
        # A handle that is dropped without `close` must not leave its connections open.
        weakref.finalize(self, self._http.close)

    def _make(self, limits: httpx.Limits) -> httpx.Client:
        return httpx.Client(
            headers=client_headers(self._token, self._settings, version("omnigraph")),
            follow_redirects=False,
            limits=limits,
            transport=self._transport,
        )

    @property
    def closed(self) -> bool:
        return self._http is None

    def close(self) -> None:
        for http in (self._http, self._alone):
            if http is not None:
                http.close()
        self._http = None

    def run(self, exchange: Exchange[_R]) -> _R:
        """Carry an operation out. Its errors are raised inside of it, so that it can end itself."""
        reply: Any = None
        error: OmnigraphError | None = None
        try:
            while True:
                asked = exchange.send(reply) if error is None else exchange.throw(error)
                reply = error = None
                try:
                    if isinstance(asked, NextChunk):
                        reply = asked.answer.next_chunk()  # type: ignore[attr-defined]
                    else:
                        reply = self.send(asked)
                except OmnigraphError as raised:
                    error = raised
        except StopIteration as end:
            result: _R = end.value
            return result
        finally:
            exchange.close()

    def send(self, request: RemoteRequest) -> ReceivedAnswer:
        attempts = Attempts(request, self.server, self._settings)
        while True:
            try:
                response = self._once(request, attempts.timeout())
            except httpx.TransportError as error:
                if request.cancel is not None and request.cancel.is_set():
                    raise ResourceLimit("the query was cancelled", limit="cancelled") from None
                self._clock.sleep(attempts.after_failure(error))
                continue
            if response.status_code < 300 or response.status_code in request.allowed:
                return ReceivedAnswer(self, response)
            found = attempts.after_answer(response.status_code, response.headers, response.content)
            if isinstance(found, OmnigraphError):
                raise found
            self._clock.sleep(found)

    def _once(self, request: RemoteRequest, timeout: httpx.Timeout) -> httpx.Response:
        http = self._http
        if http is None:
            raise GraphClosed(
                f"this handle of {self.address.url} is closed: open the graph again",
                uri=self.address.url,
            )
        built = http.build_request(
            request.method,
            self.address.url + request.path,
            params=list(request.query) or None,
            content=request.body() if request.body is not None else request.content(),
            headers=http_headers(request),
            timeout=timeout,
        )
        if request.cancel is None:
            return _sent(http, built, request)
        with CancelWatch(request.cancel) as watch:
            built.extensions["trace"] = watch.trace
            return _sent(self._cancellable_http(), built, request)

    def _cancellable_http(self) -> httpx.Client:
        """Connections that serve one request each, so that one can be cut without the others."""
        with self._lock:
            if self._alone is None:
                self._alone = self._make(httpx.Limits(max_keepalive_connections=0))
                weakref.finalize(self, self._alone.close)
            return self._alone


def _sent(http: httpx.Client, built: httpx.Request, request: RemoteRequest) -> httpx.Response:
    response = http.send(built, stream=True)
    if not request.streamed or response.status_code >= 300:
        try:
            response.read()
        finally:
            response.close()
    return response


class CancelWatch:
    """Cuts the connection of a request when another thread sets an event."""

    def __init__(self, cancel: threading.Event) -> None:
        self._cancel = cancel
        self._done = threading.Event()
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._watch, name="omnigraph-cancel", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._done.set()
        self._thread.join()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Called by httpx; the events of a new connection have its socket."""
        if event in _CONNECTED:
            self._socket = info["return_value"].get_extra_info("socket")

    def _watch(self) -> None:
        while not self._done.is_set():
            if self._cancel.wait(_LOOK_SECONDS):
                if self._socket is not None:
                    with suppress(OSError):  # the answer may have come in the meantime
                        self._socket.shutdown(socket.SHUT_RDWR)
                    return
                self._done.wait(_LOOK_SECONDS)

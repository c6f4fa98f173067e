"""`remote.client` for asyncio: sends the same requests and awaits the answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from importlib.metadata import version
from typing import Any, TypeVar

import httpx

from omnigraph.errors import GraphClosed, OmnigraphError
from omnigraph.remote.address import RemoteAddress
from omnigraph.remote.attempts import Attempts, client_headers, cut_off, http_headers
from omnigraph.remote.exchanges import Body, Exchange, NextChunk, RemoteRequest
from omnigraph.settings.models import ClientSettings

_R = TypeVar("_R")

_CHUNK = 256 * 1024


class AwaitedAnswer:
    """An answer below 400. Its chunks are awaited, so it offers none to readers that block."""

    def __init__(self, response: httpx.Response, server: str) -> None:
        self._response = response
        self._server = server
        self._chunks: AsyncIterator[bytes] | None = None
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers

    async def next_chunk(self) -> bytes:
        if self._chunks is None:
            self._chunks = self.chunks()
        return await anext(self._chunks, b"")

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.aiter_bytes(_CHUNK):
                yield chunk
        except httpx.TransportError as error:
            raise cut_off(error, self._server) from error
        finally:
            await self._response.aclose()

    def content(self) -> bytes:
        return self._response.content

    def rest(self) -> Iterator[bytes] | None:
        return None

    def repeat(self, request: RemoteRequest) -> Iterator[bytes]:
        raise NotImplementedError  # `rest` offers no stream, so no reader repeats one


class AsyncClient:
    """Connections to one graph of one server, for one event loop."""

    def __init__(
        self,
        address: RemoteAddress,
        token: str | None,
        settings: ClientSettings,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.address = address
        self.server = address.server
        self._settings = settings
        self._http: httpx.AsyncClient | None = httpx.AsyncClient(
            headers=client_headers(token, settings, version("omnigraph")),
            follow_redirects=False,
            limits=httpx.Limits(max_connections=settings.connections),
            transport=transport,
        )

    async def close(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def run(self, exchange: Exchange[_R]) -> _R:
        reply: Any = None
        error: OmnigraphError | None = None
        try:
            while True:
                asked = exchange.send(reply) if error is None else exchange.throw(error)
                reply = error = None
                try:
                    reply = await self._reply(asked)
                except OmnigraphError as raised:
                    error = raised
        except StopIteration as end:
            result: _R = end.value
            return result
        finally:
            exchange.close()

    async def _reply(self, asked: RemoteRequest | NextChunk) -> Any:
        if isinstance(asked, NextChunk):
            return await asked.answer.next_chunk()  # type: ignore[attr-defined]
        return await self.send(asked)

    async def send(self, request: RemoteRequest) -> AwaitedAnswer:
        attempts = Attempts(request, self.server, self._settings)
        while True:
            try:
                response = await self._once(request, attempts.timeout())
            except httpx.TransportError as error:
                await asyncio.sleep(attempts.after_failure(error))
                continue
            if response.status_code < 300 or response.status_code in request.allowed:
                return AwaitedAnswer(response, self.server)
            found = attempts.after_answer(response.status_code, response.headers, response.content)
            if isinstance(found, OmnigraphError):
                raise found
            await asyncio.sleep(found)

    async def _once(self, request: RemoteRequest, timeout: httpx.Timeout) -> httpx.Response:
        http = self._http
        if http is None:
            raise GraphClosed(
                f"this handle of {self.address.url} is closed: open the graph again",
                uri=self.address.url,
            )
        content = request.content() if request.body is None else _chunks(request.body)
        built = http.build_request(
            request.method,
            self.address.url + request.path,
            params=list(request.query) or None,
            content=content,
            headers=http_headers(request),
            timeout=timeout,
        )
        response = await http.send(built, stream=True)
        if not request.streamed or response.status_code >= 300:
            try:
                await response.aread()
            finally:
                await response.aclose()
        return response


async def _chunks(body: Body) -> AsyncIterator[bytes]:
    """The chunks of a body; files are read in a thread."""
    made = body()
    while (chunk := await asyncio.to_thread(next, made, None)) is not None:
        yield chunk

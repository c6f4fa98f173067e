"""The console below `/console` of a server. It calls the server as every other client does."""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from omnigraph.server.replies import Application, Receive, Scope, Send, WholeAnswer
from omnigraph.settings.models import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

    from omnigraph.server.application import HttpApplication

_MOUNT = "/console"
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


class WithConsole:
    """The application of a server, with the pages of the console beside its routes."""

    def __init__(self, application: HttpApplication) -> None:
        self._application = application
        self._site: FastAPI | None = None
        self._life = AsyncExitStack()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if self._site is not None and (path == _MOUNT or path.startswith(f"{_MOUNT}/")):
            await self._site(scope, receive, send)
        else:
            await self._application(scope, receive, send)

    def is_prompt(self, scope: Scope) -> bool:
        return self._application.is_prompt(scope)

    def answer_now(self, scope: Scope, body: bytes) -> WholeAnswer | Application:
        return self._application.answer_now(scope, body)

    async def start(self, bound: socket.socket, *, asks_for_token: bool) -> None:
        """Build the pages for the server that listens on this socket."""
        from omnigraph.console.site import build
        from omnigraph.console.viewers import ServerSource

        host, port = bound.getsockname()[:2]
        reached = _EVERYWHERE.get(host, f"[{host}]" if ":" in host else host)
        url = f"http://{reached}:{port}"
        self._site = build(ServerSource(url, Settings(), token=None, asks=asks_for_token))
        await self._life.enter_async_context(self._site.router.lifespan_context(self._site))

    async def stop(self) -> None:
        await self._life.aclose()

"""The MCP SDK inside a worker: one SDK server and one manager for all graphs.

The SDK is imported at the first request, because that takes more than a second.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from typing import Any

from omnigraph.errors import PackageMissing
from omnigraph.mcp.agent_tools import AgentTools
from omnigraph.server.replies import Receive, Scope, Send

TOOLS = "omnigraph_tools"
"""The member of a scope with the `AgentTools` of the request."""


class AgentEndpoint:
    """Starts at its first use, and ends with the worker."""

    def __init__(self) -> None:
        self._manager: Any = None
        self._starting: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._end = asyncio.Event()

    async def handle(self, scope: Scope, receive: Receive, send: Send, pool: Executor) -> None:
        """Let the SDK answer one request."""
        if not self._ready.is_set():
            if self._starting is None:
                self._starting = asyncio.ensure_future(self._run(pool))
            waiting = asyncio.ensure_future(self._ready.wait())
            await asyncio.wait({waiting, self._starting}, return_when=asyncio.FIRST_COMPLETED)
            if not self._ready.is_set():
                waiting.cancel()
                starting, self._starting = self._starting, None
                await starting  # raises why it did not start
        await self._manager.handle_request(scope, receive, send)

    async def _run(self, pool: Executor) -> None:
        """The manager of the SDK, from its start to its end in one task, as it needs."""
        loop = asyncio.get_running_loop()
        self._manager = await loop.run_in_executor(None, _manager, pool)
        async with self._manager.run():
            self._ready.set()
            await self._end.wait()

    async def stop(self) -> None:
        self._end.set()
        if self._starting is not None:
            await asyncio.wait({self._starting}, timeout=1)


def _manager(pool: Executor) -> Any:
    try:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from omnigraph.mcp.sdk_server import sdk_server
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("omnigraph"):
            raise
        raise PackageMissing(
            f"{error.name} is not installed: pip install 'omnigraph[mcp]'",
            package=error.name,
            extra="mcp",
        ) from None

    def tools_of(context: Any) -> AgentTools:
        found: AgentTools = context.request.scope[TOOLS]
        return found

    server = sdk_server(tools_of, pool)
    # The route checks Host, Origin and the size of the body before the SDK sees the request.
    return StreamableHTTPSessionManager(server, json_response=True, stateless=True)

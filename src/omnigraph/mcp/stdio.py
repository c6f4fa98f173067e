"""MCP over stdin and stdout, for a client that starts this process."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from mcp.server.stdio import stdio_server

from omnigraph.graph.handle import Graph
from omnigraph.mcp.agent_tools import AgentTools
from omnigraph.mcp.sdk_server import sdk_server
from omnigraph.values.identifiers import MAIN

_THREADS = 16


def serve_stdio(graph: Graph, *, graph_id: str | None = None, branch: str = MAIN) -> None:
    """Serve one graph until the client closes stdin."""
    tools = AgentTools(graph, graph_id=graph_id, default_branch=branch)

    async def run() -> None:
        with ThreadPoolExecutor(_THREADS, "mcp") as pool:
            server = sdk_server(lambda _: tools, pool)
            async with stdio_server() as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())

    asyncio.run(run())

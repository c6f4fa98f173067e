"""`AgentTools` behind the MCP SDK: one SDK server for all graphs and all callers."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from omnigraph.errors import OmnigraphError
from omnigraph.mcp.agent_tools import SERVER_NAME, AgentTools
from omnigraph.mcp.guide_texts import instructions
from omnigraph.mcp.tool_answers import Json, ToolAnswer
from omnigraph.values.json_values import json_form, utf8_form

Context = ServerRequestContext[Any, Any]
ToolsOf = Callable[[Context], AgentTools]
"""The tools of the graph and the actor of one request."""


def installed_version() -> str:
    try:
        return version("omnigraph")
    except PackageNotFoundError:
        return "0.0.0"


def sdk_server(tools_of: ToolsOf, pool: Executor) -> Server[Any]:
    """An SDK server whose calls run in threads of a pool."""

    async def in_thread(tools: AgentTools, work: Callable[[threading.Event], Any]) -> Any:
        """Run blocking work. When the caller gives up, reads stop; an admitted write goes on."""
        cancel = tools.cancel or threading.Event()
        running = asyncio.get_running_loop().run_in_executor(pool, work, cancel)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            cancel.set()
            raise

    async def list_tools(ctx: Context, _: Any) -> types.ListToolsResult:
        tools = tools_of(ctx)
        found = await in_thread(tools, lambda _: _declared(tools))
        return types.ListToolsResult(tools=[types.Tool.model_validate(tool) for tool in found])

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tools = tools_of(ctx)
        answer: ToolAnswer = await in_thread(
            tools, lambda cancel: tools.call(params.name, params.arguments, cancel)
        )
        return types.CallToolResult(
            content=[types.TextContent(text=utf8_form(answer.text))],
            structured_content=plain_body(answer.body),
            is_error=answer.is_error,
        )

    async def list_resources(ctx: Context, _: Any) -> types.ListResourcesResult:
        found = [types.Resource.model_validate(one) for one in tools_of(ctx).resources()]
        return types.ListResourcesResult(resources=found)

    async def read_resource(
        ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        tools, uri = tools_of(ctx), str(params.uri)
        try:
            resource, text = await in_thread(tools, lambda _: tools.read(uri))
        except OmnigraphError as error:
            raise MCPError(types.INVALID_PARAMS, error.message) from None
        content = types.TextResourceContents(uri=uri, mime_type=resource.media_type, text=text)
        return types.ReadResourceResult(contents=[content])

    return Server(
        SERVER_NAME,
        version=installed_version(),
        instructions=instructions(),
        get_tool_input_schema=lambda _: None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
    )


def _declared(tools: AgentTools) -> list[Json]:
    try:
        return tools.declarations()
    except OmnigraphError as error:
        raise MCPError(types.INTERNAL_ERROR, error.message) from None


def plain_body(body: Json) -> Json:
    """The body in values that JSON has; the SDK knows no moments and no bytes."""
    found: Json = utf8_form(json.loads(json.dumps(body, default=json_form)))
    return found

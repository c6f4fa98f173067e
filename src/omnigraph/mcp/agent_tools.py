"""`AgentTools`: the tools and resources of one graph, as one actor sees them.

A call never raises for something that the caller did: its answer is then an error that says what to
do next. This module does not know the MCP SDK.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from omnigraph.errors import NotFound, NotServed, OmnigraphError, PolicyDenied
from omnigraph.graph.handle import Graph
from omnigraph.mcp.arguments import Json, check_arguments
from omnigraph.mcp.changing_tools import CHANGING_TOOLS
from omnigraph.mcp.exploring_tools import EXPLORING_TOOLS
from omnigraph.mcp.failures import failure_answer, refusal_answer, unexpected_answer
from omnigraph.mcp.reading_tools import READING_TOOLS
from omnigraph.mcp.resources import RESOURCES, AgentResource
from omnigraph.mcp.stored_query_tools import find_stored_tool, stored_query_tools
from omnigraph.mcp.tool_answers import ToolAnswer
from omnigraph.mcp.tool_calls import AgentTool, ToolCall
from omnigraph.stored_queries.entries import StoredQuery
from omnigraph.values.identifiers import MAIN
from omnigraph.values.known_names import did_you_mean, nearest_name

SERVER_NAME = "omnigraph"
BUILT_IN = {tool.name: tool for tool in (*READING_TOOLS, *EXPLORING_TOOLS, *CHANGING_TOOLS)}
"""The tools that every graph has, by name."""
_DECLARED = {name: tool.declaration() for name, tool in BUILT_IN.items()}


class AgentTools:
    """What a model can do with a graph."""

    def __init__(
        self,
        graph: Graph,
        *,
        graph_id: str | None = None,
        default_branch: str = MAIN,
        timeout: float | None = None,
        cancel: threading.Event | None = None,
        observe: Callable[[str, ToolAnswer], None] | None = None,
    ) -> None:
        self.graph = graph
        self.graph_id = graph_id
        self.default_branch = default_branch
        self._timeout = timeout
        self.cancel = cancel
        """Set when the caller goes away; None: each call has its own event."""
        self._observe = observe

    def declarations(self) -> list[Json]:
        """The tools that this actor could use on some branch, as `tools/list` shows them."""
        shown = [_DECLARED[name] for name, tool in BUILT_IN.items() if self._may_use(tool)]
        return [*shown, *(tool.declaration() for tool in self._stored())]

    def _may_use(self, tool: AgentTool) -> bool:
        if tool.writes and self.graph.read_only:
            return False
        try:
            self.graph.access.require_somewhere(tool.action)
        except PolicyDenied:
            return False
        except NotServed:
            return True  # the server decides in every call
        return True

    def _stored(self) -> list[AgentTool]:
        """The tools of stored queries. A tool that is built in keeps its name."""
        found = stored_query_tools(self._queries())
        return [tool for tool in found if tool.name not in BUILT_IN]

    def _queries(self) -> Sequence[StoredQuery]:
        try:
            found = self.graph.queries.list()
        except PolicyDenied:
            return []
        return [query for query in found if not (query.mutation and self.graph.read_only)]

    def find(self, name: str) -> AgentTool | None:
        built_in = BUILT_IN.get(name)
        if built_in is not None:
            return built_in if self._may_use(built_in) else None
        return find_stored_tool(self._queries(), name)

    def may_write(self, name: str) -> bool:
        """Whether a call of the tool may change the graph; of a stored query this is not known."""
        built_in = BUILT_IN.get(name)
        return built_in is None or built_in.writes

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancel: threading.Event | None = None,
    ) -> ToolAnswer:
        """Run a tool; wrong arguments, refusals and failures are answers, too."""
        answer = self._answer(name, arguments, cancel)
        if self._observe is not None:
            self._observe(name, answer)
        return answer

    def _answer(
        self, name: str, arguments: Mapping[str, Any] | None, cancel: threading.Event | None
    ) -> ToolAnswer:
        try:
            tool = self.find(name)
            if tool is None:
                return self._unknown(name)
            given = check_arguments(name, tool.arguments, arguments)
            return tool.run(self._call(given, cancel))
        except OmnigraphError as error:
            return self._failed(error, arguments)
        except Exception as error:  # noqa: BLE001 - its text must not reach the caller
            return unexpected_answer(name, error)

    def _call(self, given: Mapping[str, Any], cancel: threading.Event | None = None) -> ToolCall:
        return ToolCall(
            self.graph,
            given,
            self.graph_id,
            self.default_branch,
            cancel or threading.Event(),
            self._timeout,
        )

    def _failed(self, error: OmnigraphError, arguments: Mapping[str, Any] | None) -> ToolAnswer:
        given = arguments if isinstance(arguments, Mapping) else {}
        query = given.get("query")
        if not isinstance(query, str):
            return failure_answer(error)
        try:
            branch = given.get("branch") or self.default_branch
            catalog = self.graph.snapshot(str(branch)).catalog
        except OmnigraphError:
            return failure_answer(error)
        return failure_answer(error, query=query, catalog=catalog)

    def _unknown(self, name: str) -> ToolAnswer:
        known = [str(tool["name"]) for tool in self.declarations()]
        near = nearest_name(name, known)
        hint = f"; did you mean '{near}'?" if near else ""
        advice = [f"call {near}"] if near else ["call one of the tools that the list shows"]
        return refusal_answer(f"there is no tool '{name}'{hint}", advice)

    def resources(self) -> list[Json]:
        return [resource.declaration() for resource in RESOURCES.values()]

    def read(self, uri: str) -> tuple[AgentResource, str]:
        """A resource and its text; raises `OmnigraphError`."""
        found = RESOURCES.get(uri)
        if found is None:
            hint = did_you_mean(uri, RESOURCES) or ""
            raise NotFound(f"there is no resource {uri}; {hint}", uri=uri)
        given = {"type": None, "branch": None, "snapshot": None}
        return found, found.read(self._call(given))

"""A tool as data, and one call of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.graph.handle import Graph
from omnigraph.mcp.arguments import TEXT, Json, ToolArgument, check_key, input_schema
from omnigraph.mcp.tool_answers import ToolAnswer
from omnigraph.policy.actions import READ
from omnigraph.values.identifiers import MAIN

BRANCH = ToolArgument("branch", TEXT, "The branch. By default that of this session, or main.")
SNAPSHOT = ToolArgument(
    "snapshot", TEXT, "A past state instead of the head: a commit id, a tag, a time, or HEAD~2."
)
KEY = ToolArgument(
    "idempotency_key",
    TEXT,
    "Any text, new for each change. If an answer is lost, call again with the same key: the change "
    "is made once.",
)
MESSAGE = ToolArgument("message", TEXT, "Why, for the history.")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The graph, the checked arguments, and an event that is set when the caller gives up."""

    graph: Graph
    given: Mapping[str, Any]
    graph_id: str | None = None
    default_branch: str = MAIN
    cancel: threading.Event = field(default_factory=threading.Event)
    timeout: float | None = None

    @property
    def branch(self) -> str:
        return str(self.given.get("branch") or self.default_branch)

    @property
    def at(self) -> str | None:
        return self.given.get("snapshot")

    @property
    def key(self) -> str | None:
        return check_key(self.given.get("idempotency_key"))


@dataclass(frozen=True, slots=True)
class AgentTool:
    """A tool that a model can call."""

    name: str
    description: str
    arguments: tuple[ToolArgument, ...]
    run: Callable[[ToolCall], ToolAnswer]
    action: str = READ
    """The action that an actor needs on some branch to see the tool."""
    writes: bool = False
    destroys: bool = False
    """May remove or replace something."""

    def declaration(self) -> Json:
        """The tool as `tools/list` shows it."""
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": input_schema(self.arguments),
            "annotations": {
                "readOnlyHint": not self.writes,
                "destructiveHint": self.destroys,
                "idempotentHint": not self.writes,
                "openWorldHint": False,
            },
        }

"""Resources: texts that a client can read beside the tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from omnigraph.mcp.guide_texts import BEST_PRACTICES, guide
from omnigraph.mcp.reading_tools import branch_list, schema_get
from omnigraph.mcp.tool_calls import ToolCall

MARKDOWN, PLAIN, JSON = "text/markdown", "text/plain", "application/json"
_GUIDES = "omnigraph://best-practices/"


@dataclass(frozen=True, slots=True)
class AgentResource:
    """One text under an address."""

    uri: str
    name: str
    description: str
    media_type: str
    read: Callable[[ToolCall], str]

    def declaration(self) -> dict[str, str]:
        return {
            "uri": self.uri,
            "name": self.name,
            "description": self.description,
            "mimeType": self.media_type,
        }


def _schema(call: ToolCall) -> str:
    return str(schema_get(call).body["schema_source"])


def _branches(call: ToolCall) -> str:
    return json.dumps(branch_list(call).body)


def _graphs(call: ToolCall) -> str:
    """The graph of this address; a server does not list the others to a client of one graph."""
    return json.dumps({"graphs": [{"graph_id": call.graph_id}]})


def _guide(name: str) -> AgentResource:
    title = guide(name).partition("\n")[0].removeprefix("# ")
    told = f"{title}, for models"
    return AgentResource(f"{_GUIDES}{name}", title, told, MARKDOWN, lambda _: guide(name))


RESOURCES = {
    found.uri: found
    for found in (
        AgentResource("omnigraph://schema", "Schema", "The schema in force", PLAIN, _schema),
        AgentResource("omnigraph://branches", "Branches", "All branches", JSON, _branches),
        AgentResource(
            "omnigraph://graphs", "Graphs", "The graph behind these tools", JSON, _graphs
        ),
        *(_guide(name) for name in BEST_PRACTICES),
    )
}

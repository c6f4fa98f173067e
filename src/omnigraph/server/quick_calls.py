"""Plain tool calls, answered without the SDK.

The SDK makes a transport, a connection and several tasks for every message, which costs more than
most queries. A `tools/call` in the form that clients send needs none of them, so it is answered
here, with the same JSON. Every other message, and every message with something unusual in it, goes
to the SDK, which also words the errors of the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from omnigraph.mcp.tool_answers import ToolAnswer
from omnigraph.server.calls import Call

CALL = "tools/call"
HANDSHAKE_VERSIONS = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
STATELESS_VERSION = "2026-07-28"
_MESSAGE = {"jsonrpc", "id", "method", "params"}
_META = "io.modelcontextprotocol/"
_META_MEMBERS = {
    f"{_META}{name}" for name in ("protocolVersion", "clientInfo", "clientCapabilities")
}


@dataclass(frozen=True, slots=True)
class QuickCall:
    """A call of a tool: the id of its message, the tool, and its arguments."""

    id: str | int
    name: str
    arguments: dict[str, Any] | None
    is_stateless: bool
    """Of the revision without a handshake, whose results have two members more."""

    def message(self, answer: ToolAnswer, server: Mapping[str, str]) -> dict[str, Any]:
        """The JSON-RPC answer."""
        result: dict[str, Any] = {
            "content": [{"text": answer.text, "type": "text"}],
            "isError": answer.is_error,
            "structuredContent": answer.body,
        }
        if self.is_stateless:
            result["resultType"] = "complete"
            result["_meta"] = {f"{_META}serverInfo": dict(server)}
        return {"jsonrpc": "2.0", "id": self.id, "result": result}


def quick_call(call: Call) -> QuickCall | None:
    """The tool call of a request; None: the SDK answers it."""
    if not _has_plain_headers(call):
        return None
    try:
        message = msgspec.json.decode(call.raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(message, dict) or message.keys() != _MESSAGE:
        return None
    number, params = message["id"], message["params"]
    is_call = message["jsonrpc"] == "2.0" and message["method"] == CALL
    if not is_call or not isinstance(params, dict) or type(number) not in (int, str):
        return None
    return _of_params(call, number, params)


def _has_plain_headers(call: Call) -> bool:
    names = [name for name, _ in call.scope["headers"]]
    if any(name.startswith(b"mcp-param") for name in names):
        return False
    if any(names.count(name) > 1 for name in (b"mcp-protocol-version", b"mcp-method", b"mcp-name")):
        return False
    accepted = call.header(b"accept") or ""
    content = (call.header(b"content-type") or "").lower()
    is_json = content.partition(";")[0].strip() == "application/json"
    return is_json and "application/json" in accepted and "text/event-stream" in accepted


def _of_params(call: Call, number: str | int, params: dict[str, Any]) -> QuickCall | None:
    name, arguments = params.get("name"), params.get("arguments")
    fits = isinstance(name, str) and (arguments is None or isinstance(arguments, dict))
    if not fits or params.keys() - {"name", "arguments", "_meta"}:
        return None
    assert isinstance(name, str)
    version = call.header(b"mcp-protocol-version")
    if version is None or version in HANDSHAKE_VERSIONS:
        return None if "_meta" in params else QuickCall(number, name, arguments, False)
    if version == STATELESS_VERSION and _is_whole_envelope(call, name, params.get("_meta")):
        return QuickCall(number, name, arguments, True)
    return None


def _is_whole_envelope(call: Call, name: str, meta: Any) -> bool:
    """Whether a stateless request says who sends it, and its headers repeat the message."""
    if not isinstance(meta, dict) or meta.keys() != _META_MEMBERS:
        return False
    client = meta[f"{_META}clientInfo"]
    return (
        meta[f"{_META}protocolVersion"] == STATELESS_VERSION
        and isinstance(client, dict)
        and isinstance(client.get("name"), str)
        and isinstance(client.get("version"), str)
        and isinstance(meta[f"{_META}clientCapabilities"], dict)
        and call.header(b"mcp-method") == CALL
        and call.header(b"mcp-name") == name
    )

"""POST `/mcp`: the tools of a graph for agents, as stateless Streamable HTTP."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from omnigraph.mcp.agent_tools import SERVER_NAME, AgentTools
from omnigraph.mcp.tool_answers import ToolAnswer
from omnigraph.policy.actions import READ
from omnigraph.server.agent_endpoint import TOOLS
from omnigraph.server.bodies_in import read_body
from omnigraph.server.calls import Call, in_thread
from omnigraph.server.quick_calls import quick_call
from omnigraph.server.replies import Message, Receive, Refusal, Scope, Send
from omnigraph.server.route_entry import WRITE_STATUSES, RouteEntry
from omnigraph.values.identifiers import MAIN

DEFAULT_BRANCH = b"omnigraph-branch"
"""The branch of tools that name none, for all requests of a configured client."""

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_ANYWHERE = frozenset({"0.0.0.0", "::"})


async def agents(call: Call) -> Any:
    """One JSON-RPC message; the SDK answers with one JSON body."""
    _check_host(call)
    kind = (call.header(b"content-type") or "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(400, "a message of MCP is JSON: send Content-Type: application/json")
    call.raw = await read_body(call, call.state.settings.limits.body_bytes)
    call.scope["exchange"].bytes_in = len(call.raw)
    tools = AgentTools(
        call.graph,
        graph_id=call.graph_id,
        default_branch=call.header(DEFAULT_BRANCH) or MAIN,
        timeout=call.timeout(),
        cancel=call.cancel,
        observe=partial(_observed, call),
    )

    quick = quick_call(call)
    if quick is not None:
        pool = call.state.writes if tools.may_write(quick.name) else call.state.reads
        told = await in_thread(
            call, lambda: tools.call(quick.name, quick.arguments, call.cancel), pool
        )
        return quick.message(told, {"name": SERVER_NAME, "version": call.state.version})

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        scope[TOOLS] = tools
        watch = asyncio.ensure_future(_watch(call, receive))
        try:
            body = _ReplayedBody(call.raw)
            await call.state.agents.handle(scope, body.receive, send, call.state.writes)
        finally:
            watch.cancel()

    return answer


def _observed(call: Call, name: str, answer: ToolAnswer) -> None:
    """What a call reports to the log and the metrics, as the route of the same operation does."""
    call.notes["tool"] = name
    body = answer.body
    if "policy_denied" in body:
        call.state.metrics.denied(body["policy_denied"].get("action") or "unknown")
    done = body.get("merge") or body
    commit = done.get("commit")
    if answer.is_error or not isinstance(commit, dict):
        return
    call.notes["graph_commit_id"] = commit["graph_commit_id"]
    if not done.get("repeated"):
        call.state.metrics.committed(call.graph_id or "", commit["operation"])


class _ReplayedBody:
    """The body that was read, as the SDK receives it."""

    def __init__(self, content: bytes) -> None:
        self._content: bytes | None = content

    async def receive(self) -> Message:
        content, self._content = self._content, None
        if content is None:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": content, "more_body": False}


async def _watch(call: Call, receive: Receive) -> None:
    """A read stops when its client goes away."""
    while (await receive())["type"] != "http.disconnect":
        pass
    call.cancel.set()


def _check_host(call: Call) -> None:
    """Refuse requests that a web page of another host sends through a browser."""
    settings = call.state.settings
    bound = settings.host.lower()
    host = _host_of(f"//{call.header(b'host') or ''}")
    known = {name.lower() for name in settings.allowed_hosts}
    if bound in _LOOPBACK:
        known |= _LOOPBACK
    elif bound not in _ANYWHERE:
        known.add(bound)
    # A server for other machines has names that it does not know, unless it is told them.
    checked = bool(settings.allowed_hosts) or bound in _LOOPBACK
    if checked and host not in known:
        raise Refusal(403, f"the host {host!r} is not served here: start with --allowed-host")
    origin = call.header(b"origin")
    if origin is None or origin in settings.cors_origins:
        return
    if _host_of(origin) not in (known if checked else {host, *known}):
        raise Refusal(403, f"pages of {origin} may not call: start with --cors-origin")


def _host_of(text: str) -> str:
    try:
        return (urlsplit(text).hostname or "").lower()
    except ValueError:
        return ""


AGENT_ROUTES = (
    RouteEntry(
        "POST",
        "/mcp",
        "mcp",
        "agents",
        agents,
        "The Model Context Protocol: one JSON-RPC message in, one out.",
        action=READ,
        statuses=(*WRITE_STATUSES, 202),
    ),
)

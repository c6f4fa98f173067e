"""`/optimize`, `/cleanup`, `/status` and `/recoveries`."""

from __future__ import annotations

from typing import Any

from omnigraph.server.calls import Call
from omnigraph.server.request_bodies import CleanupRequest, OptimizeRequest
from omnigraph.wire.records import record_to_json


def optimize(call: Call) -> dict[str, Any]:
    body: OptimizeRequest = call.body
    behind = call.graph.optimize(body.branch, body.types)
    return {"graph_branch": body.branch, "skipped": behind}


def cleanup(call: Call) -> dict[str, Any]:
    body: CleanupRequest = call.body
    return record_to_json(call.graph.cleanup(body.keep, body.older_than, confirm=body.confirm))


def status(call: Call) -> dict[str, Any]:
    return record_to_json(call.graph.status())


def recoveries(call: Call) -> dict[str, Any]:
    return {"recoveries": [record_to_json(audit) for audit in call.graph.recoveries()]}

"""`/optimize`, `/cleanup`, `/status` and `/recoveries`."""

from __future__ import annotations

from typing import Any

from omnigraph.policy import actions
from omnigraph.server import answers as tell
from omnigraph.server.calls import Call
from omnigraph.server.request_bodies import CleanupRequest, OptimizeRequest
from omnigraph.server.route_entry import SMALL_WRITE, WRITE_STATUSES, RouteEntry
from omnigraph.server.routes.long_work import may_respond_later
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


UPKEEP_ROUTES = (
    RouteEntry(
        "POST",
        "/optimize",
        "optimize",
        "upkeep",
        may_respond_later(optimize),
        "Compact files and build indexes.",
        action=actions.ADMIN,
        body=OptimizeRequest,
        body_optional=True,
        answer=tell.OptimizeOutput,
        statuses=(*WRITE_STATUSES, 202),
        admission=SMALL_WRITE,
        is_async_work=True,
    ),
    RouteEntry(
        "POST",
        "/cleanup",
        "cleanup",
        "upkeep",
        may_respond_later(cleanup),
        "Remove what nothing needs any more, or only report it.",
        action=actions.ADMIN,
        body=CleanupRequest,
        body_optional=True,
        answer=tell.CleanupOutput,
        statuses=(*WRITE_STATUSES, 202),
        admission=SMALL_WRITE,
        is_async_work=True,
    ),
    RouteEntry(
        "GET",
        "/status",
        "getStatus",
        "upkeep",
        status,
        "Fragments, indexes, history and bytes.",
        action=actions.ADMIN,
        answer=tell.StatusOutput,
        statuses=(401, 403, 404),
    ),
    RouteEntry(
        "GET",
        "/recoveries",
        "listRecoveries",
        "upkeep",
        recoveries,
        "What was recovered from dead writers.",
        action=actions.ADMIN,
        answer=tell.RecoveryListOutput,
        statuses=(401, 403, 404),
    ),
)

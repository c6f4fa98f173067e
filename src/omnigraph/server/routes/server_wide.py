"""Routes of the server itself: health, readiness, metrics, the graphs, reload."""

from __future__ import annotations

import logging
from typing import Any

from omnigraph.errors import OmnigraphError
from omnigraph.manifest.branch_state import CURRENT_FORMAT
from omnigraph.policy.actions import ADMIN, GRAPH_LIST
from omnigraph.server import answers as tell
from omnigraph.server.access_log import log_event
from omnigraph.server.calls import Call
from omnigraph.server.cluster_source import ClusterSource
from omnigraph.server.metrics import MEDIA_TYPE
from omnigraph.server.replies import Reply
from omnigraph.server.route_entry import SERVER, RouteEntry
from omnigraph.server.served_graphs import ServedChanges
from omnigraph.server.state import SERVING, ServerState

logger = logging.getLogger(__name__)


def require_server(call: Call, action: str) -> None:
    """Actions on the server itself need a policy that grants them."""
    call.state.policies.require(call.actor, action)


async def health(call: Call) -> dict[str, Any]:
    return {
        "status": "ok",
        "version": call.state.version,
        "internal_schema_version": CURRENT_FORMAT,
    }


async def readiness(call: Call) -> Reply:
    state = call.state
    ready = state.phase == SERVING
    body = {
        "ready": ready,
        "status": state.phase,
        **_revision(state),
        "served_graph_count": len(state.graphs),
        "quarantined_graph_count": len(state.graphs.quarantined),
        "shutdown_grace_seconds": int(state.settings.shutdown_grace_seconds),
    }
    headers = [] if ready else [(b"retry-after", b"1")]
    return Reply(body, 200 if ready else 503, headers)


def _revision(state: ServerState) -> dict[str, Any]:
    """The applied revision that is served; all None without a cluster."""
    found = None if state.cluster is None else state.cluster.revision
    return {
        "booted_serving_digest": None if found is None else found.digest,
        "state_revision": None if found is None else found.revision,
        "state_cas": None if found is None else found.cas,
    }


def metrics(call: Call) -> Reply:
    if call.state.settings.metrics_auth:
        if call.state.needs_token:
            call.actor = call.state.tokens.actor_of(call.authorization)
        require_server(call, ADMIN)
    return Reply(
        call.state.metrics.text(call.state.admission, call.state.graphs), media_type=MEDIA_TYPE
    )


async def openapi(call: Call) -> Reply:
    """The document; made once, because it does not change while the server runs."""
    return Reply(call.state.openapi())


def list_graphs(call: Call) -> dict[str, Any]:
    require_server(call, GRAPH_LIST)
    graphs = call.state.graphs
    # Addresses of storage and reasons of failures are for those who run the server.
    is_admin = call.state.policies.allows(call.actor, ADMIN)
    return {
        "graphs": sorted(
            (
                {"graph_id": served.graph_id, **({"uri": served.uri} if is_admin else {})}
                for served in graphs
            ),
            key=lambda found: found["graph_id"],
        ),
        "quarantined": [
            {
                "graph_id": found.graph_id,
                "code": found.code,
                "message": found.message if is_admin else "the graph could not be opened",
            }
            for found in sorted(graphs.quarantined.values(), key=lambda found: found.graph_id)
        ],
    }


def reload(call: Call) -> dict[str, Any]:
    require_server(call, ADMIN)
    found = reload_state(call.state)
    call.state.tell_workers()
    return found


def reload_state(state: ServerState) -> dict[str, Any]:
    """Read tokens, rules and the applied revision again, and open graphs that were set aside.

    What cannot be read leaves in force what was read before.
    """
    with state.reload_lock:
        before = set(state.graphs.quarantined)
        reloaded = True
        try:
            tokens = state.tokens.reload()
        except OmnigraphError as error:
            logger.warning("tokens not reloaded, the old ones stay: %s", error.message)
            reloaded, tokens = False, len(state.tokens)
        changes = ServedChanges()
        try:
            if state.cluster is None:
                state.policies.reload()
                state.graphs.reload_queries()
            else:
                changes = _newest_revision(state, state.cluster)
        except OmnigraphError as error:
            logger.warning("not reloaded, the old rules and graphs stay: %s", error.message)
            reloaded = False
        state.graphs.open_all()
        healed = before - set(state.graphs.quarantined) - set(changes.removed)
    log_event(logger, "reloaded", tokens=tokens, reloaded=reloaded)
    graphs = changes.to_dict()
    graphs["added"] = sorted({*changes.added, *(healed - set(changes.changed))})
    graphs["failed"] = sorted(state.graphs.quarantined)
    return {
        "reloaded": reloaded,
        "state_revision": _revision(state)["state_revision"],
        "graphs": graphs,
        "tokens": tokens,
    }


def _newest_revision(state: ServerState, cluster: ClusterSource) -> ServedChanges:
    return cluster.change_to(cluster.newest(), state.policies, state.graphs)


def look_after_graphs(state: ServerState) -> None:
    """Serve a newer revision, and try again to open graphs that are set aside and due."""
    with state.reload_lock:
        cluster = state.cluster
        if cluster is not None and (state.graphs.due or cluster.has_moved()):
            try:
                changes = _newest_revision(state, cluster)
            except OmnigraphError as error:
                if cluster.refused != error.message:
                    cluster.refused = error.message
                    logger.warning("the newest revision is not served: %s", error.message)
            else:
                cluster.refused = None
                if any(changes.to_dict().values()):
                    log_event(logger, "revision in force", **_revision(state))
        for graph_id in state.graphs.heal():
            log_event(logger, "graph healed", graph_id=graph_id)


SERVER_ROUTES = (
    RouteEntry(
        "GET",
        "/healthz",
        "health",
        "health",
        health,
        "The process is alive.",
        place=SERVER,
        public=True,
        answer=tell.HealthOutput,
    ),
    RouteEntry(
        "GET",
        "/readyz",
        "readiness",
        "health",
        readiness,
        "The server takes requests.",
        place=SERVER,
        public=True,
        answer=tell.ReadinessOutput,
        statuses=(503,),
    ),
    RouteEntry(
        "GET",
        "/metrics",
        "metrics",
        "health",
        metrics,
        "Measurements for Prometheus.",
        place=SERVER,
        public=True,
        media=("text/plain",),
        statuses=(401, 403),
        listed=False,
    ),
    RouteEntry(
        "GET",
        "/openapi.json",
        "openapi",
        "health",
        openapi,
        "This document.",
        place=SERVER,
        public=True,
        listed=False,
    ),
    RouteEntry(
        "GET",
        "/graphs",
        "listGraphs",
        "management",
        list_graphs,
        "The graphs of this server.",
        action="graph_list",
        place=SERVER,
        answer=tell.GraphListOutput,
        statuses=(401, 403),
    ),
    RouteEntry(
        "POST",
        "/admin/reload",
        "reload",
        "management",
        reload,
        "Read tokens, rules and graphs again.",
        action="admin",
        place=SERVER,
        answer=tell.ReloadOutput,
        statuses=(401, 403),
    ),
)

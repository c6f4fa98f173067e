"""From flags and environment to the state of a worker; refuses what must not be served."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from omnigraph import tracing
from omnigraph.errors import InvalidArgument
from omnigraph.graph.admission import Admission, AdmissionLimits, WriteSlots
from omnigraph.server.access_log import log_event
from omnigraph.server.configuration import RequestLimits, ServerSettings
from omnigraph.server.metrics import Metrics
from omnigraph.server.policies import PolicyFiles, ServerPolicies
from omnigraph.server.served_graphs import ReadsOnly, ServedGraphs
from omnigraph.server.shared_slots import SharedSlots
from omnigraph.server.state import SERVING, ServerState
from omnigraph.server.tokens import Tokens
from omnigraph.settings.models import Settings

logger = logging.getLogger(__name__)

RUN_DIRECTORY = "OMNIGRAPH_SERVER_RUN_DIR"
"""Set by the supervisor: what the workers of one server share."""
METRICS_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
_TRACING = "OTEL_"
"""With a variable of OpenTelemetry requests and commits are traced."""
_NO_VERSION = "0.0.0"


def admission_limits(limits: RequestLimits) -> AdmissionLimits:
    return AdmissionLimits(
        reads=limits.reads,
        streams=limits.streams,
        actor_writes=limits.actor_inflight,
        actor_bytes=limits.actor_bytes,
        writes=limits.writes,
        write_wait_seconds=limits.write_queue_ms / 1000,
    )


def build_state(
    addresses: Mapping[str, str],
    settings: ServerSettings,
    environment: Mapping[str, str],
    engine: Settings | None = None,
    policies: ServerPolicies | None = None,
) -> ServerState:
    """The state of a worker whose graphs are not open yet."""
    if any(name.startswith(_TRACING) for name in environment):
        tracing.turn_on()
    tokens = Tokens(environment)
    files = PolicyFiles(settings.policies, settings.server_policies)
    policies = policies or ServerPolicies(files.read, files.stamp)
    policies.require_graphs(list(addresses))
    if policies and not len(tokens):
        raise InvalidArgument(
            "there is a policy and there are no bearer tokens, so every request would be refused: "
            "set OMNIGRAPH_SERVER_BEARER_TOKENS_FILE"
        )
    if not len(tokens) and not settings.unauthenticated:
        raise InvalidArgument(
            "there are no bearer tokens: set OMNIGRAPH_SERVER_BEARER_TOKENS_FILE, or let everyone "
            "in with --unauthenticated"
        )
    for source in tokens.sources:
        log_event(logger, "loaded bearer token source", source=source)
    limits = admission_limits(settings.limits)
    shared = environment.get(RUN_DIRECTORY)
    slots: WriteSlots | None = SharedSlots(shared, limits) if shared else None
    admission = Admission(limits, slots)
    graphs = ServedGraphs(
        addresses,
        engine or Settings(),
        settings.limits,
        admission,
        lambda name: policies.of_graph(name) or (ReadsOnly() if len(tokens) else None),
        read_only=settings.read_only,
        queries=dict(settings.queries),
    )
    metrics = Metrics(environment.get(METRICS_DIRECTORY))
    return ServerState(settings, tokens, policies, graphs, admission, metrics, installed_version())


def open_graphs(state: ServerState) -> None:
    """Open all graphs, and begin to serve them."""
    state.graphs.open_all()
    quarantined = list(state.graphs.quarantined.values())
    if quarantined and (state.settings.require_all_graphs or not len(state.graphs)):
        first = quarantined[0]
        raise InvalidArgument(f"graph {first.graph_id} at {first.uri}: {first.message}")
    for served in state.graphs:
        served.graph.engine.requests.sweep()
    state.phase = SERVING


def require_graphs(addresses: Mapping[str, str]) -> None:
    if not addresses:
        raise InvalidArgument("name at least one graph to serve")


def installed_version() -> str:
    try:
        return version("omnigraph")
    except PackageNotFoundError:
        return _NO_VERSION

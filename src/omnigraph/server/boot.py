"""From flags and environment to the state of a worker; refuses what must not be served."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from omnigraph import tracing
from omnigraph.cluster.serving import GraphToServe
from omnigraph.errors import ClusterRefused, InvalidArgument
from omnigraph.graph.admission import Admission, AdmissionLimits, WriteSlots
from omnigraph.server.access_log import log_event
from omnigraph.server.cluster_source import ClusterSource
from omnigraph.server.configuration import RequestLimits, ServerSettings
from omnigraph.server.metrics import Metrics
from omnigraph.server.policies import PolicyFiles, ServerPolicies
from omnigraph.server.served_graphs import ReadsOnly, ServedGraphs, check_graph_id
from omnigraph.server.shared_slots import SharedSlots
from omnigraph.server.state import SERVING, ServerState
from omnigraph.server.tokens import Tokens
from omnigraph.settings.models import ExternalBlobSettings, Settings, external_bases

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
) -> ServerState:
    """The state of a worker whose graphs are not open yet.

    With `settings.cluster` the graphs, their queries and all rules are those of its applied
    revision. Otherwise they are `addresses` and the files of the settings.
    """
    if any(name.startswith(_TRACING) for name in environment):
        tracing.turn_on()
    tokens = Tokens(environment)
    source = None if settings.cluster is None else ClusterSource(settings.cluster, environment)
    files = PolicyFiles(settings.policies, settings.server_policies)
    if source is None:
        policies = ServerPolicies(files.read, files.stamp)
        policies.require_graphs(list(addresses))
        queries = dict(settings.queries)
        wanted = [
            GraphToServe(
                check_graph_id(name),
                uri,
                queries.get(name, ()),
                blobs=_allowed_blobs(name, settings, engine or Settings()),
            )
            for name, uri in addresses.items()
        ]
    else:
        policies = ServerPolicies(source.bundles, source.stamp)
        wanted = list(source.revision.graphs.values())
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
    for name in tokens.sources:
        log_event(logger, "loaded bearer token source", source=name)
    limits = admission_limits(settings.limits)
    shared = environment.get(RUN_DIRECTORY)
    slots: WriteSlots | None = SharedSlots(shared, limits) if shared else None
    admission = Admission(limits, slots)
    reads_only = ReadsOnly() if len(tokens) else None
    graphs = ServedGraphs(
        wanted,
        engine or Settings(),
        settings.limits,
        admission,
        lambda name: policies.of_graph(name) or reads_only,
        read_only=settings.read_only,
    )
    metrics = Metrics(environment.get(METRICS_DIRECTORY))
    return ServerState(
        settings,
        tokens,
        policies,
        graphs,
        admission,
        metrics,
        installed_version(),
        cluster=source,
    )


def _allowed_blobs(name: str, settings: ServerSettings, engine: Settings) -> ExternalBlobSettings:
    """The external blobs of one graph: of the config file, and of `--external-blobs`."""
    named = [base for graph, base in settings.external_blobs if graph == name]
    allowed = engine.external_blobs.server_safe
    chosen = ExternalBlobSettings(server_safe=tuple(dict.fromkeys((*allowed, *named))))
    external_bases(chosen)  # refuses wrong ones before the server starts
    return chosen


def open_graphs(state: ServerState) -> None:
    """Open all graphs, and begin to serve them."""
    state.graphs.open_all()
    quarantined = list(state.graphs.quarantined.values())
    if quarantined and (state.settings.require_all_graphs or not len(state.graphs)):
        first = quarantined[0]
        message = f"graph {first.graph_id} at {first.uri}: {first.message}"
        if state.cluster is not None and not len(state.graphs):
            raise ClusterRefused(message, reason="cluster_no_healthy_graphs", path=first.graph_id)
        raise InvalidArgument(message)
    for served in state.graphs:
        served.graph.engine.requests.sweep()
    state.phase = SERVING


def require_graphs(addresses: Mapping[str, str], cluster: str | None) -> None:
    if not addresses and cluster is None:
        raise InvalidArgument("name at least one graph to serve, or a cluster with --cluster")
    if addresses and cluster is not None:
        raise InvalidArgument("--cluster names the graphs: give no other graphs with it")


def installed_version() -> str:
    try:
        return version("omnigraph")
    except PackageNotFoundError:
        return _NO_VERSION

"""What a server serves: the applied revision of a cluster, checked as a whole.

Only the ledger and the catalog count, never the config directory, except to find the root. What is
wrong with the cluster refuses it. What is wrong with one graph sets that graph aside.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from omnigraph.cluster.config_reader import CLUSTER_SCOPE
from omnigraph.cluster.graph_work import allowed_blobs
from omnigraph.cluster.ledger import Ledger, check_graph_digests
from omnigraph.cluster.resources import (
    GRAPH,
    POLICY,
    QUERY,
    ResourceEntry,
    digest_of,
    graph_address,
    graph_of,
    kind_of,
    name_of,
    retention_address,
)
from omnigraph.cluster.root import STATE, ClusterRoot
from omnigraph.cluster.session import ClusterCall, InvalidConfig, find_root
from omnigraph.errors import ClusterRefused, PolicyInvalid
from omnigraph.policy.bundle import Bundle, BundleKind, read_bundle
from omnigraph.policy.policy import Policy
from omnigraph.settings.models import ExternalBlobSettings
from omnigraph.stored_queries.entries import StoredSource
from omnigraph.stored_queries.registry import QueryPlace
from omnigraph.syntax.source_text import SourceText
from omnigraph.values.identifiers import GRAPH_ID, RESERVED_GRAPH_IDS

_AT_ONCE = 8
"""Graphs whose texts are read side by side, because a bucket answers slowly."""


@dataclass(frozen=True, slots=True)
class GraphToServe:
    """One graph of a server, as it is to be opened."""

    graph_id: str
    uri: str
    queries: QueryPlace = ()
    profile: Mapping[str, str] | None = None
    """Its embedding provider."""
    retention: Mapping[str, float] | None = None
    """What a cleanup keeps; None keeps all."""
    blobs: ExternalBlobSettings | None = None
    """The external blobs that it allows; None: what the settings of the process say."""
    refusal: tuple[str, str] | None = None
    """Code and message of a graph that is set aside before it is opened."""


@dataclass(frozen=True, slots=True)
class ServingRevision:
    """The applied revision as a server needs it."""

    root: str
    revision: int
    cas: str
    digest: str
    """Of all applied resources; two servers with the same digest serve the same."""
    graphs: Mapping[str, GraphToServe] = field(default_factory=dict)
    graph_bundles: Mapping[str, tuple[Bundle, ...]] = field(default_factory=dict)
    server_bundles: tuple[Bundle, ...] = ()


def serving_root(place: str, environment: Mapping[str, str]) -> ClusterRoot:
    """The root of a config directory, or of an address; refuses a config without one."""
    try:
        return find_root(ClusterCall(place, environment=environment))[0]
    except InvalidConfig as invalid:
        first = invalid.diagnostics[0]
        raise ClusterRefused(str(first), reason=first.code, path=place) from None


def read_revision(root: ClusterRoot, environment: Mapping[str, str]) -> ServingRevision:
    """The applied revision; raises `ClusterRefused` for what makes the whole cluster unservable."""
    stored = root.read_ledger()
    if stored.cas is None:
        raise ClusterRefused(
            f"{root.uri} has no ledger: run `omnigraph cluster apply` first",
            reason="cluster_state_missing",
            path=STATE,
        )
    ledger = stored.ledger
    check_graph_digests(ledger)
    if not ledger.graph_ids:
        raise ClusterRefused(
            f"the cluster at {root.uri} has no graphs: declare one, and apply it",
            reason="cluster_empty",
            path=STATE,
        )
    pending = {intent.graph_id for intent in root.intents()}
    with ThreadPoolExecutor(_AT_ONCE, "catalog") as pool:
        found = pool.map(
            lambda graph_id: _graph(root, ledger, graph_id, pending, environment),
            ledger.graph_ids,
        )
        graphs = {each.graph_id: each for each in found}
    by_graph, of_server = _bundles(root, ledger, graphs)
    digest = digest_of({name: each.to_dict() for name, each in sorted(ledger.resources.items())})
    return ServingRevision(
        root.uri, ledger.revision, stored.cas, digest, graphs, by_graph, of_server
    )


def applied_graph(place: str, graph_id: str, environment: Mapping[str, str]) -> GraphToServe:
    """One graph with what was applied to it, for a command that opens its storage itself.

    A provider whose key is not set here is left out, because most commands make no vectors.
    """
    root = serving_root(place, environment)
    ledger = root.read_ledger().ledger
    check_graph_digests(ledger)
    profile = _profile(ledger, ledger.resources[graph_address(graph_id)], graph_id)
    if _missing_secret(profile, environment) is not None:
        profile = None
    queries = _queries(root, ledger, graph_id)
    uri, retention = root.graph_uri(graph_id), _retention(ledger, graph_id)
    blobs = allowed_blobs(ledger.resources[graph_address(graph_id)].external_blob_policy)
    return GraphToServe(graph_id, uri, queries, profile, retention, blobs)


def _graph(
    root: ClusterRoot,
    ledger: Ledger,
    graph_id: str,
    pending: set[str],
    environment: Mapping[str, str],
) -> GraphToServe:
    entry = ledger.resources[graph_address(graph_id)]
    profile = _profile(ledger, entry, graph_id)
    uri = root.graph_uri(graph_id)
    refusal = None
    if not GRAPH_ID.fullmatch(graph_id) or graph_id in RESERVED_GRAPH_IDS:
        refusal = ("invalid_graph_id", f"{graph_id!r} is no id of a graph")
    elif graph_id in pending:
        message = "a change of it was interrupted: run `omnigraph cluster apply`"
        refusal = ("cluster_recovery_pending", message)
    else:
        refusal = _missing_secret(profile, environment)
    if refusal is not None:
        return GraphToServe(graph_id, uri, profile=profile, refusal=refusal)
    queries, retention = _queries(root, ledger, graph_id), _retention(ledger, graph_id)
    blobs = allowed_blobs(entry.external_blob_policy)
    return GraphToServe(graph_id, uri, queries, profile, retention, blobs)


def _retention(ledger: Ledger, graph_id: str) -> Mapping[str, float] | None:
    entry = ledger.resources.get(retention_address(graph_id))
    return None if entry is None else entry.retention


def _profile(ledger: Ledger, graph: ResourceEntry, graph_id: str) -> Mapping[str, str] | None:
    address = graph.embedding_provider
    if address is None:
        return None
    entry = ledger.resources.get(address)
    if entry is None:
        problem, reason = "is not applied", "embedding_provider_missing"
    elif entry.embedding_profile is None:
        problem, reason = "has no profile", "embedding_provider_profile_missing"
    elif digest_of(entry.embedding_profile) != entry.digest:
        problem = "has another profile than its digest says"
        reason = "embedding_provider_profile_digest_mismatch"
    else:
        return entry.embedding_profile
    raise ClusterRefused(
        f"graph {graph_id}: {address} {problem}. Restore the ledger from a backup, or apply again",
        reason=reason,
        path=address,
    )


def _missing_secret(
    profile: Mapping[str, str] | None, environment: Mapping[str, str]
) -> tuple[str, str] | None:
    key = None if profile is None else profile.get("api_key")
    if key is None or environment.get(key[2:-1]):
        return None
    message = f"the variable {key[2:-1]} of its embedding provider is not set"
    return "embedding_secret_missing", message


def _queries(root: ClusterRoot, ledger: Ledger, graph_id: str) -> tuple[StoredSource, ...]:
    found = []
    for address, entry in ledger.resources.items():
        if kind_of(address) == QUERY and graph_of(address) == graph_id:
            text = root.payload(address, entry.digest).decode()
            source = SourceText(text, f"{address}.gq")
            names = frozenset({name_of(address)})
            found.append(StoredSource(source, names, entry.expose, entry.tool_name))
    return tuple(found)


def _bundles(
    root: ClusterRoot, ledger: Ledger, graphs: Mapping[str, GraphToServe]
) -> tuple[dict[str, tuple[Bundle, ...]], tuple[Bundle, ...]]:
    """The bundles of each graph and of the server. Graphs that are set aside need none."""
    by_graph: dict[str, list[Bundle]] = {}
    of_server: list[Bundle] = []
    for address, entry in ledger.resources.items():
        if kind_of(address) != POLICY:
            continue
        if not entry.applies_to:
            raise ClusterRefused(
                f"{address} is bound to nothing: apply the cluster again",
                reason="policy_bindings_missing",
                path=address,
            )
        bound = [name_of(each) for each in entry.applies_to if kind_of(each) == GRAPH]
        if CLUSTER_SCOPE in entry.applies_to:
            of_server.append(_bundle(root, address, entry, BundleKind.SERVER))
        elif any(name in graphs and graphs[name].refusal is None for name in bound):
            bundle = _bundle(root, address, entry, BundleKind.GRAPH)
            for name in bound:
                if name in graphs:
                    by_graph.setdefault(name, []).append(bundle)
    _require_usable("cluster", of_server)
    for name, found in by_graph.items():
        _require_usable(graph_address(name), found)
    return {name: tuple(found) for name, found in by_graph.items()}, tuple(of_server)


def _bundle(root: ClusterRoot, address: str, entry: ResourceEntry, kind: BundleKind) -> Bundle:
    text = root.payload(address, entry.digest).decode()
    try:
        return read_bundle(text, f"{address}.yaml", kind)
    except PolicyInvalid as error:
        raise ClusterRefused(error.message, reason="policy_invalid", path=address) from None


def _require_usable(scope: str, bundles: list[Bundle]) -> None:
    """Rules that cannot be compiled together, for example because they share an id."""
    if not bundles:
        return
    try:
        Policy(bundles)
    except PolicyInvalid as error:
        raise ClusterRefused(error.message, reason="policy_invalid", path=scope) from None

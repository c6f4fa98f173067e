"""One command on one cluster: its config, its root, and what `plan` and `apply` both find out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from omnigraph.cluster.approvals import are_enough, stale_warnings, valid_approvals
from omnigraph.cluster.changes import (
    ApplyFacts,
    ApprovalGate,
    ResourceChange,
    classify,
    gates,
    propose,
)
from omnigraph.cluster.config_reader import find_config, read_config_directory
from omnigraph.cluster.declarations import ClusterConfig, ClusterDiagnostic, warning
from omnigraph.cluster.desired import DesiredCluster, read_cluster
from omnigraph.cluster.graph_work import applied_settings, preview_schema
from omnigraph.cluster.ledger import StoredLedger, check_graph_digests
from omnigraph.cluster.observe import LiveGraph, RootState, observe_graphs
from omnigraph.cluster.recovery import Swept, sweep
from omnigraph.cluster.resources import SCHEMA, graph_of, kind_of
from omnigraph.cluster.root import Approval, ClusterIntent, ClusterRoot, open_root
from omnigraph.errors import ClusterRefused
from omnigraph.settings.models import Settings
from omnigraph.values.clock import SYSTEM_CLOCK, Clock
from omnigraph.values.temporal import write_micros


@dataclass(frozen=True, slots=True)
class ClusterCall:
    """Where a command works, and for whom."""

    directory: str = "."
    """The config directory; for some commands a storage root."""
    actor: str | None = None
    settings: Settings = field(default_factory=Settings)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    clock: Clock = SYSTEM_CLOCK
    lock_timeout: float = 0.0

    def now(self) -> str:
        return write_micros(self.clock.now_micros())


class InvalidConfig(Exception):
    """The config has errors; a report shows them, and no command goes on."""

    def __init__(self, diagnostics: Sequence[ClusterDiagnostic]) -> None:
        super().__init__("the config has errors")
        self.diagnostics = list(diagnostics)


@dataclass(frozen=True, slots=True)
class OpenCluster:
    """A cluster whose config was read without errors."""

    call: ClusterCall
    desired: DesiredCluster
    root: ClusterRoot
    diagnostics: tuple[ClusterDiagnostic, ...]

    @property
    def config(self) -> ClusterConfig:
        return self.desired.config

    def settings_of(self, graph_id: str, *, embeds: bool = False) -> Settings:
        """The settings of the engine for one graph, with its declared embedding provider.

        Keys are secrets of servers, so work that makes no vectors goes on without one.
        """
        graph = self.config.graphs.get(graph_id)
        if graph is None or graph.provider is None:
            return self.call.settings
        provider = self.config.providers[graph.provider]
        key = provider.api_key_env
        if not embeds and key is not None and not self.call.environment.get(key):
            return self.call.settings
        return applied_settings(self.call.settings, provider.profile())


def open_cluster(call: ClusterCall) -> OpenCluster:
    found = read_cluster(call.directory, call.environment)
    if found.desired is None:
        raise InvalidConfig(found.diagnostics)
    root = open_root(found.desired.config.storage, call.environment)
    return OpenCluster(call, found.desired, root, found.diagnostics)


def find_root(call: ClusterCall) -> tuple[ClusterRoot, tuple[ClusterDiagnostic, ...]]:
    """The root that a directory declares, or that is itself the address of a root.

    Only `storage` of the config matters, so mistakes elsewhere in it do not stop the command.
    """
    if "://" in call.directory and not call.directory.startswith("file://"):
        return open_root(call.directory, call.environment), ()
    folder = Path(call.directory.removeprefix("file://")).expanduser()
    if find_config(folder) is None and (folder / "__cluster").is_dir():
        return open_root(str(folder), call.environment), ()
    found = read_config_directory(call.directory, call.environment)
    if found.config is None:
        raise InvalidConfig(found.diagnostics)
    return open_root(found.config.storage, call.environment), found.diagnostics


@dataclass(frozen=True, slots=True)
class ApplyTerms:
    """What the caller of `plan` or `apply` asks for."""

    targets: tuple[str, ...] = ()
    min_approvals: int = 1
    observe: bool = True


@dataclass
class Proposal:
    """What an apply would do now, and the facts behind it."""

    stored: StoredLedger
    swept: Swept
    live: Mapping[str, LiveGraph]
    proposed: list[ResourceChange]
    facts: ApplyFacts
    changes: list[ResourceChange]
    gates: list[ApprovalGate]
    approvals: Sequence[Approval]
    diagnostics: list[ClusterDiagnostic]

    def used_approvals(self, gate: ApprovalGate, config_digest: str) -> list[Approval]:
        return valid_approvals(gate, self.approvals, self.swept.ledger, config_digest)


def prepare(
    cluster: OpenCluster,
    stored: StoredLedger,
    terms: ApplyTerms,
    finish_creation: Callable[[ClusterIntent], None],
) -> Proposal:
    """Observe, settle intents on a copy of the ledger, find the changes and judge them."""
    check_graph_digests(stored.ledger)
    desired, call = cluster.desired, cluster.call
    intents = cluster.root.intents()
    wanted = {each.graph_id for each in intents}
    if terms.observe:
        wanted |= {*desired.config.graphs, *stored.ledger.graph_ids}
    live = dict(observe_graphs(cluster.root, wanted, call.settings))
    if not terms.observe:
        live = {**_recorded(cluster, stored), **live}
    approvals = cluster.root.approvals()

    def is_enough(gate: ApprovalGate) -> bool:
        valid = valid_approvals(gate, approvals, stored.ledger, desired.config_digest)
        return are_enough(valid, desired.config.approvals, terms.min_approvals, call.actor)

    swept = sweep(
        stored.ledger,
        intents,
        live,
        approvals=approvals,
        is_released=is_enough,
        finish_creation=finish_creation,
        now=call.now(),
        actor=call.actor,
    )
    proposed = [
        _previewed(cluster, change, terms.observe)
        for change in propose(desired, swept.ledger, live, swept.created)
    ]
    facts = ApplyFacts(
        live=live,
        never_lossy=frozenset(
            name for name, each in desired.config.graphs.items() if each.allow_data_loss == "never"
        ),
        kept=frozenset(swept.kept),
        repeatable=frozenset(swept.repeat),
        targets=frozenset(terms.targets),
    )
    gated = gates(proposed, facts)
    approved = frozenset((each.resource, each.operation) for each in gated if is_enough(each))
    facts = replace(facts, approved=approved)
    all_gates = [*swept.gates, *gates(proposed, facts)]
    diagnostics = [*swept.diagnostics]
    diagnostics += stale_warnings(all_gates, approvals, swept.ledger, desired.config_digest)
    diagnostics += [
        warning("schema_preview_unavailable", each.migration.error or "", each.resource)
        for each in proposed
        if each.migration is not None and each.migration.unavailable
    ]
    return Proposal(
        stored,
        swept,
        live,
        proposed,
        facts,
        classify(proposed, facts),
        all_gates,
        approvals,
        diagnostics,
    )


def _previewed(cluster: OpenCluster, change: ResourceChange, observe: bool) -> ResourceChange:
    graph_id = graph_of(change.resource)
    if kind_of(change.resource) != SCHEMA or not change.moves_graph or not observe:
        return change
    assert graph_id is not None
    graph = cluster.config.graphs[graph_id]
    uri = cluster.root.graph_uri(graph_id)
    source = cluster.desired.schemas[graph_id]
    return replace(
        change, migration=preview_schema(uri, source, graph, cluster.settings_of(graph_id))
    )


def _recorded(cluster: OpenCluster, stored: StoredLedger) -> dict[str, LiveGraph]:
    """The graphs as the last refresh saw them."""
    found = {}
    for address, seen in stored.ledger.observations.items():
        graph_id = address.partition(".")[2]
        if seen.get("kind") != "graph":
            continue
        state = RootState.OPEN if seen.get("schema_digest") else RootState.UNREADABLE
        if not seen.get("exists"):
            state = RootState.ABSENT
        found[graph_id] = LiveGraph(
            graph_id,
            cluster.root.graph_uri(graph_id),
            state,
            seen.get("schema_digest"),
            seen.get("graph_manifest_version"),
            seen.get("error"),
        )
    return found


def check_targets(cluster: OpenCluster, stored: StoredLedger, targets: Sequence[str]) -> None:
    known = {*cluster.desired.entries, *stored.ledger.resources}
    for target in targets:
        if target not in known:
            raise ClusterRefused(
                f"--target {target} is no resource of this cluster; `cluster validate` lists them",
                reason="unknown_target",
                path=target,
            )

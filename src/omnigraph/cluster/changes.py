"""From desired state, ledger and live graphs to changes, and what may be done with each; pure.

`propose` finds the changes. `classify` gives each a disposition, from facts that were found out
before: approvals, intents of dead processes, the engine's plan for a schema change. `next_ledger`
records what was done. None of them reads or writes anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph.cluster.desired import DesiredCluster
from omnigraph.cluster.ledger import APPLIED, BLOCKED, PENDING, Ledger
from omnigraph.cluster.observe import LiveGraph, RootState
from omnigraph.cluster.resources import (
    GRAPH,
    POLICY,
    PROVIDER,
    QUERY,
    RETENTION,
    SCHEMA,
    ResourceEntry,
    graph_address,
    graph_of,
    kind_of,
    name_of,
    with_graph_digests,
)
from omnigraph.maintain.garbage import Retention

CREATE = "create"
UPDATE = "update"
DELETE = "delete"
RECOVER = "recover"

DERIVED = "derived"
DEFERRED = "deferred"

APPROVAL_REQUIRED = "approval_required"
GRAPH_MISSING = "graph_missing"
ADOPTED = "adopted"
RECOVERY_PENDING = "cluster_recovery_pending"
DEPENDENCY = "dependency_not_applied"
NOT_TARGETED = "not_targeted"
LOSSY = "data_loss"
RETENTION_CUT = "retention_cut"

_ORDER = {PROVIDER: 0, GRAPH: 1, SCHEMA: 2, QUERY: 3, RETENTION: 4, POLICY: 5}


@dataclass(frozen=True, slots=True)
class Migration:
    """The engine's plan for a schema change, or why there is none."""

    supported: bool
    steps: tuple[Mapping[str, Any], ...] = ()
    lines: tuple[str, ...] = ()
    lossy: bool = False
    """It is refused without leave to lose data."""
    error: str | None = None
    unavailable: bool = False
    """The graph could not be asked."""

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"supported": self.supported, "steps": [*self.steps]}
        if self.lossy:
            found["data_loss"] = True
        if self.error is not None:
            found["error"] = self.error
        return found


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """One change of one resource."""

    resource: str
    operation: str
    before: ResourceEntry | None = None
    after: ResourceEntry | None = None
    before_digest: str | None = None
    disposition: str = APPLIED
    reason: str | None = None
    metadata_change: str | None = None
    migration: Migration | None = None
    moves_graph: bool = False
    """It creates, changes or deletes a graph, and does not only record something."""

    @property
    def after_digest(self) -> str | None:
        return None if self.after is None else self.after.digest

    @property
    def is_done(self) -> bool:
        """Whether it is carried out, and not kept back."""
        return self.disposition in (APPLIED, DERIVED)

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "resource": self.resource,
            "operation": self.operation,
            "before_digest": self.before_digest,
            "after_digest": self.after_digest,
            "disposition": self.disposition,
            "reason": self.reason,
            "binding_change": True if self.metadata_change == "policy_bindings" else None,
            "metadata_change": self.metadata_change,
            "migration": None if self.migration is None else self.migration.to_dict(),
        }
        return {name: value for name, value in found.items() if value is not None}


def propose(
    desired: DesiredCluster,
    ledger: Ledger,
    live: Mapping[str, LiveGraph],
    created: Set[str] = frozenset(),
) -> list[ResourceChange]:
    """The changes from ledger and live graphs to the desired state, in the order of work.

    `created` are graphs whose interrupted creation these changes complete.
    """
    found: list[ResourceChange] = []
    for address in sorted({*desired.entries, *ledger.resources}):
        before, after = ledger.resources.get(address), desired.entries.get(address)
        match kind_of(address):
            case "graph":
                change = _graph_change(address, before, after, live.get(name_of(address)))
            case "schema":
                graph_id = name_of(address)
                exists = graph_address(graph_id) in ledger.resources
                change = _schema_change(address, before, after, live.get(graph_id), exists)
            case "retention":
                graph_id = name_of(address)
                root = live.get(graph_id)
                known = graph_address(graph_id) in ledger.resources
                has_commits = (RootState.OPEN, RootState.UNREADABLE)
                is_old = known if root is None else root.state in has_commits
                is_old = is_old and graph_id not in created
                change = _retention_change(address, before, after, is_old)
            case _:
                change = _entry_change(address, before, after)
        if change is not None:
            found.append(change)
    return sorted(found, key=lambda each: (_ORDER[kind_of(each.resource)], each.resource))


def _entry_change(
    address: str, before: ResourceEntry | None, after: ResourceEntry | None
) -> ResourceChange | None:
    if before == after:
        return None
    operation = CREATE if before is None else DELETE if after is None else UPDATE
    change = ResourceChange(
        address, operation, before, after, None if before is None else before.digest
    )
    if before is not None and after is not None and before.digest == after.digest:
        names = {POLICY: "policy_bindings", PROVIDER: "embedding_profile", QUERY: "query_exposure"}
        change = replace(change, metadata_change=names.get(kind_of(address)))
    return change


def _graph_change(
    address: str,
    before: ResourceEntry | None,
    after: ResourceEntry | None,
    live: LiveGraph | None,
) -> ResourceChange | None:
    gone = live is not None and live.state in (RootState.ABSENT, RootState.INCOMPLETE)
    if after is not None and before is not None and gone:
        return ResourceChange(
            address, CREATE, before, after, before.digest, reason=GRAPH_MISSING, moves_graph=True
        )
    change = _entry_change(address, before, after)
    if change is None:
        return None
    if change.operation == CREATE:
        adopted = live is not None and live.is_open
        return replace(change, moves_graph=not adopted, reason=ADOPTED if adopted else None)
    if change.operation == DELETE:
        return replace(change, moves_graph=True)
    return replace(change, disposition=DERIVED)


def _schema_change(
    address: str,
    before: ResourceEntry | None,
    after: ResourceEntry | None,
    live: LiveGraph | None,
    exists: bool,
) -> ResourceChange | None:
    """The live schema counts, and not what the ledger says about it."""
    if after is None or live is None or not live.is_open:
        gone = live is not None and live.state in (RootState.ABSENT, RootState.INCOMPLETE)
        if after is not None and gone and exists and before is not None:
            return ResourceChange(address, CREATE, before, after, before.digest)
        return _entry_change(address, before, after)
    found = live.schema_digest
    if found == after.digest:
        return _entry_change(address, before, after)
    drifted = before is not None and before.digest != found
    reason = "drifted" if drifted else None
    return ResourceChange(address, UPDATE, before, after, found, reason=reason, moves_graph=True)


def _retention_change(
    address: str, before: ResourceEntry | None, after: ResourceEntry | None, is_old: bool
) -> ResourceChange | None:
    """A rule that keeps less than before is a cut, unless the graph is created with it."""
    change = _entry_change(address, before, after)
    if change is None or not is_old:
        return change
    cuts = retention_of(after).cuts(retention_of(before))
    return replace(change, reason=RETENTION_CUT if cuts else None)


def retention_of(entry: ResourceEntry | None) -> Retention:
    """What an entry keeps readable; no entry keeps all."""
    return Retention.of_rules({} if entry is None or not entry.retention else entry.retention)


@dataclass(frozen=True, slots=True)
class ApplyFacts:
    """What decides about changes, apart from the changes themselves."""

    live: Mapping[str, LiveGraph] = field(default_factory=dict)
    never_lossy: frozenset[str] = frozenset()
    """Graphs that must never lose data."""
    approved: frozenset[tuple[str, str]] = frozenset()
    """(resource, operation) of gated changes that have enough valid approvals."""
    kept: frozenset[str] = frozenset()
    """Graphs with an intent that recovery could not settle."""
    repeatable: frozenset[str] = frozenset()
    """Graphs whose creation was interrupted and may be repeated."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """By graph: why its work failed or was left out in this run."""
    targets: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ApprovalGate:
    """A change that needs an approval, and the digests that an approval of it is bound to."""

    resource: str
    operation: str
    reason: str
    before_digest: str | None
    after_digest: str | None
    satisfied: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {"resource": self.resource, "reason": self.reason, "satisfied": self.satisfied}


def gates(changes: Iterable[ResourceChange], facts: ApplyFacts) -> list[ApprovalGate]:
    """The changes that need an approval."""
    found = []
    for change in changes:
        reason = _gate_reason(change, facts)
        if reason is not None:
            approved = (change.resource, change.operation) in facts.approved
            found.append(
                ApprovalGate(
                    change.resource,
                    change.operation,
                    reason,
                    change.before_digest,
                    change.after_digest,
                    approved,
                )
            )
    return found


def _gate_reason(change: ResourceChange, facts: ApplyFacts) -> str | None:
    graph_id = graph_of(change.resource)
    match kind_of(change.resource), change.operation:
        case "graph", "delete":
            return "graph_delete"
        case "graph", "create" if change.reason == GRAPH_MISSING:
            return GRAPH_MISSING
        case "retention", _ if change.reason == RETENTION_CUT:
            return RETENTION_CUT
        case "schema", "update" if change.migration is not None and change.migration.lossy:
            return None if graph_id in facts.never_lossy else LOSSY
    return None


def classify(changes: Sequence[ResourceChange], facts: ApplyFacts) -> list[ResourceChange]:
    """The changes with their dispositions. What depends on a blocked change is blocked, too."""
    leaving = {
        name_of(each.resource)
        for each in changes
        if kind_of(each.resource) == GRAPH and each.operation == DELETE
    }
    held: dict[str, str] = {}
    """By graph: why its own change or that of its schema is not made."""
    found = []
    for change in changes:
        reason = _obstacle(change, facts)
        graph_id = graph_of(change.resource)
        if reason is None and graph_id in held:
            reason = _dependent_reason(change, held[graph_id], graph_id in leaving)
        if reason is None:
            found.append(change)
            continue
        if graph_id is not None and kind_of(change.resource) in (GRAPH, SCHEMA):
            held.setdefault(graph_id, reason)
        disposition = DEFERRED if reason == NOT_TARGETED else BLOCKED
        found.append(replace(change, disposition=disposition, reason=reason))
    found = _graphs_follow_parts(found, held)
    unsettled = {
        name_of(each.resource)
        for each in found
        if kind_of(each.resource) == GRAPH and each.operation != UPDATE and not each.is_done
    }
    return [_wait_for_graphs(change, unsettled | facts.kept) for change in found]


def _obstacle(change: ResourceChange, facts: ApplyFacts) -> str | None:
    """Why the change cannot be made, for a reason that lies in itself or its graph."""
    graph_id = graph_of(change.resource)
    if facts.targets and not _is_targeted(change.resource, facts.targets):
        return NOT_TARGETED
    if graph_id is None:
        return None
    if graph_id in facts.kept:
        return RECOVERY_PENDING
    own_work = change.moves_graph or change.operation == CREATE
    if graph_id in facts.failed and own_work and kind_of(change.resource) != QUERY:
        return facts.failed[graph_id]
    live = facts.live.get(graph_id)
    obstacle = None
    match kind_of(change.resource), change.operation:
        case "graph", "create" if change.before is None and live is not None:
            taken = live.state in (RootState.INCOMPLETE, RootState.UNREADABLE)
            if taken and graph_id not in facts.repeatable:
                obstacle = f"graph_{live.state.value}"
        case "schema", "update":
            obstacle = _schema_obstacle(change, live, graph_id, facts)
        case _:
            pass
    if obstacle is not None:
        return obstacle
    gated = _gate_reason(change, facts)
    if gated is not None and (change.resource, change.operation) not in facts.approved:
        return APPROVAL_REQUIRED
    return None


def _schema_obstacle(
    change: ResourceChange, live: LiveGraph | None, graph_id: str, facts: ApplyFacts
) -> str | None:
    if live is not None and live.state is RootState.UNREADABLE:
        return "graph_unreadable"
    migration = change.migration
    if migration is None or migration.unavailable:
        return None
    if migration.lossy and graph_id in facts.never_lossy:
        return "data_loss_forbidden"
    return None if migration.supported or migration.lossy else "schema_change_refused"


def _dependent_reason(change: ResourceChange, reason: str, leaving: bool) -> str | None:
    """Parts of a graph that is to be deleted wait for the same thing as the graph."""
    if kind_of(change.resource) == GRAPH:
        return None
    return reason if leaving and reason != NOT_TARGETED else DEPENDENCY


def _graphs_follow_parts(
    changes: Sequence[ResourceChange], held: Mapping[str, str]
) -> list[ResourceChange]:
    """A graph whose schema, or no part at all, is applied keeps its digest."""
    done = {each.resource for each in changes if each.is_done}
    moving = {graph_of(name) for name in done if kind_of(name) != GRAPH}
    waiting = {graph_of(each.resource) for each in changes if not each.is_done}

    def waits(change: ResourceChange) -> bool:
        if kind_of(change.resource) != GRAPH or not change.is_done:
            return False
        graph_id = graph_of(change.resource)
        if graph_id in held:
            return True
        follows = change.disposition == DERIVED and graph_id in waiting - moving
        return follows and not _has_own_change(change, done)

    return [
        replace(each, disposition=BLOCKED, reason=DEPENDENCY) if waits(each) else each
        for each in changes
    ]


def _has_own_change(change: ResourceChange, done: set[str]) -> bool:
    """Whether a graph changes apart from its parts: its blobs, or its provider."""
    before, after = change.before, change.after
    if before is None or after is None or after.embedding_provider in done:
        return True
    return replace(before, digest="") != replace(after, digest="")


def _wait_for_graphs(change: ResourceChange, unsettled: set[str]) -> ResourceChange:
    """A policy waits for the graphs that it binds.

    Otherwise a graph whose delete waits for an approval would be served without its policy.
    """
    if not change.is_done or kind_of(change.resource) != POLICY:
        return change
    entries = [entry for entry in (change.before, change.after) if entry is not None]
    bound = {name_of(each) for entry in entries for each in entry.applies_to or ()}
    if bound & unsettled:
        return replace(change, disposition=BLOCKED, reason=DEPENDENCY)
    return change


def _is_targeted(address: str, targets: frozenset[str]) -> bool:
    """A target takes what belongs to it: a graph its schema and queries, a schema its graph."""
    if address in targets:
        return True
    graph_id = graph_of(address)
    if graph_id is None:
        return False
    if graph_address(graph_id) in targets:
        return True
    return kind_of(address) == GRAPH and any(graph_of(each) == graph_id for each in targets)


def next_ledger(
    ledger: Ledger,
    desired: DesiredCluster,
    changes: Sequence[ResourceChange],
    statuses: Mapping[str, Mapping[str, Any]],
) -> Ledger:
    """The ledger after these changes: only what was done is recorded.

    `statuses` are those of resources that failed, or that recovery could not settle.
    """
    after = ledger.copy()
    for change in changes:
        if not change.is_done:
            continue
        if change.after is None:
            after.resources.pop(change.resource, None)
        else:
            after.resources[change.resource] = change.after
        graph_id = graph_of(change.resource)
        if graph_id is not None and (change.moves_graph or change.operation == CREATE):
            after.observations.pop(graph_address(graph_id), None)
    after.resources = with_graph_digests(after.resources)
    if all(change.is_done for change in changes):
        after.config_digest = desired.config_digest
    elif any(change.is_done for change in changes):
        after.config_digest = None
    after.statuses = {}
    for address in after.resources:
        after.set_status(address, APPLIED)
    for change in changes:
        if not change.is_done:
            status = PENDING if change.disposition == DEFERRED else BLOCKED
            after.set_status(change.resource, status, (change.reason or "",))
    after.statuses.update({address: dict(status) for address, status in statuses.items()})
    return after

"""Settle the intents of applies that died: classify and decide are pure, `sweep` acts.

A graph is never rolled back. Either nothing happened, or the ledger catches up with the graph, or
the intent is kept and blocks its graph until a person has looked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from omnigraph.cluster.changes import RECOVER, RECOVERY_PENDING, ApprovalGate
from omnigraph.cluster.declarations import ClusterDiagnostic, warning
from omnigraph.cluster.ledger import DRIFTED, FAILED, Ledger
from omnigraph.cluster.observe import LiveGraph, RootState
from omnigraph.cluster.resources import (
    ResourceEntry,
    graph_address,
    graph_of,
    schema_address,
    with_graph_digests,
)
from omnigraph.cluster.root import CREATE, DELETE, Approval, ClusterIntent

ROLLED_FORWARD = "rolled_forward"


class IntentState(StrEnum):
    """What a live graph shows about an intent."""

    NOTHING_DONE = "nothing_done"
    RECORDED = "recorded"
    """The ledger has it already."""
    DONE = "done"
    PARTLY_DELETED = "partly_deleted"
    OTHER_SCHEMA = "other_schema"
    NOT_OPEN = "not_open"


class IntentEnd(StrEnum):
    """What becomes of an intent."""

    RETIRE = "retire"
    ROLL_FORWARD = "roll_forward"
    KEEP = "keep"


def classify_intent(intent: ClusterIntent, live: LiveGraph, ledger: Ledger) -> IntentState:
    """Compare a live graph with what an intent meant to do; pure."""
    known = graph_address(intent.graph_id) in ledger.resources
    if intent.kind == DELETE:
        if live.state is not RootState.ABSENT:
            return IntentState.PARTLY_DELETED
        return IntentState.DONE if known else IntentState.RECORDED
    if live.state is RootState.ABSENT and intent.kind == CREATE:
        return IntentState.NOTHING_DONE
    if live.state is RootState.INCOMPLETE and intent.kind == CREATE and not known:
        return IntentState.NOTHING_DONE  # a creation may be repeated over its own leftovers
    if not live.is_open:
        return IntentState.NOT_OPEN
    if ledger.digest(schema_address(intent.graph_id)) == live.schema_digest:
        return IntentState.RECORDED
    if live.schema_digest == intent.desired_schema_digest:
        return IntentState.DONE
    untouched = live.manifest_version == intent.observed_manifest_version
    return IntentState.NOTHING_DONE if untouched else IntentState.OTHER_SCHEMA


def decide_intent(state: IntentState, *, released: bool) -> IntentEnd:
    """The end of an intent; pure. `released` says that a person approved to let go of it."""
    match state:
        case IntentState.DONE:
            return IntentEnd.ROLL_FORWARD
        case IntentState.OTHER_SCHEMA | IntentState.NOT_OPEN:
            return IntentEnd.RETIRE if released else IntentEnd.KEEP
        case _:
            return IntentEnd.RETIRE


@dataclass
class Swept:
    """What a sweep found. The changes of the ledger ride on the write of the command."""

    ledger: Ledger
    diagnostics: list[ClusterDiagnostic] = field(default_factory=list)
    retire: list[str] = field(default_factory=list)
    """Intents to remove once the ledger is written."""
    kept: dict[str, ClusterIntent] = field(default_factory=dict)
    """By graph."""
    repeat: dict[str, str] = field(default_factory=dict)
    """By graph: the intent of a creation that may be repeated over its own leftovers."""
    statuses: dict[str, dict[str, Any]] = field(default_factory=dict)
    gates: list[ApprovalGate] = field(default_factory=list)
    released: list[ApprovalGate] = field(default_factory=list)
    """Gates whose intent was let go of under an approval."""
    created: set[str] = field(default_factory=set)
    """Graphs whose interrupted creation is recorded now."""


def release_gate(intent: ClusterIntent, live: LiveGraph, *, satisfied: bool) -> ApprovalGate:
    """The approval by which a person lets go of a kept intent."""
    return ApprovalGate(
        graph_address(intent.graph_id),
        RECOVER,
        RECOVERY_PENDING,
        live.schema_digest,
        intent.desired_schema_digest or None,
        satisfied,
    )


def sweep(
    ledger: Ledger,
    intents: Sequence[ClusterIntent],
    live: Mapping[str, LiveGraph],
    *,
    approvals: Sequence[Approval],
    is_released: Callable[[ApprovalGate], bool],
    finish_creation: Callable[[ClusterIntent], None],
    now: str,
    actor: str | None,
) -> Swept:
    """Settle all intents on a copy of the ledger.

    `finish_creation` loads the seed data of a graph whose creation was interrupted after its init.
    """
    found = Swept(ledger.copy())
    for intent in intents:
        graph = live[intent.graph_id]
        state = classify_intent(intent, graph, found.ledger)
        gate = release_gate(intent, graph, satisfied=False)
        end = decide_intent(state, released=is_released(gate))
        if end is IntentEnd.KEEP:
            _keep(found, intent, graph, state, gate)
            continue
        if state in (IntentState.OTHER_SCHEMA, IntentState.NOT_OPEN):
            found.released.append(gate)
        if intent.kind == CREATE and graph.state is RootState.INCOMPLETE:
            found.repeat[intent.graph_id] = intent.operation_id
            continue
        found.retire.append(intent.operation_id)
        if state in (IntentState.DONE, IntentState.RECORDED) and intent.kind == CREATE:
            finish_creation(intent)
        if end is IntentEnd.ROLL_FORWARD:
            _roll_forward(found, intent, approvals, now, actor)
        elif state is IntentState.PARTLY_DELETED:
            message = "its delete was interrupted and is proposed again"
            address = graph_address(intent.graph_id)
            found.diagnostics.append(warning("graph_delete_incomplete", message, address))
    return found


def _keep(
    found: Swept, intent: ClusterIntent, live: LiveGraph, state: IntentState, gate: ApprovalGate
) -> None:
    address = graph_address(intent.graph_id)
    found.kept[intent.graph_id] = intent
    found.gates.append(gate)
    if state is IntentState.NOT_OPEN and intent.kind == CREATE:
        condition, status = "graph_create_incomplete", FAILED
        message = f"its creation was interrupted, and it does not open: {live.error}"
    else:
        condition, status = "actual_applied_state_pending", DRIFTED
        problem = live.error or "its schema is neither the old nor the intended one"
        message = f"{intent.kind} {intent.operation_id} was interrupted, and {problem}"
    found.statuses[address] = {"status": status, "conditions": [condition], "message": message}
    advice = f"Look at the graph, then let go of it with `cluster approve {address}`"
    found.diagnostics.append(warning(RECOVERY_PENDING, f"{message}. {advice}", address))


def _roll_forward(
    found: Swept,
    intent: ClusterIntent,
    approvals: Sequence[Approval],
    now: str,
    actor: str | None,
) -> None:
    ledger, graph_id = found.ledger, intent.graph_id
    address = graph_address(graph_id)
    if intent.kind == DELETE:
        for each in [name for name in ledger.resources if graph_of(name) == graph_id]:
            del ledger.resources[each]
        ledger.observations[address] = tombstone(now, intent.approval_id, intent.actor)
    else:
        ledger.resources[schema_address(graph_id)] = ResourceEntry(intent.desired_schema_digest)
        ledger.resources.setdefault(address, ResourceEntry(""))
        ledger.observations.pop(address, None)
        if intent.kind == CREATE:
            found.created.add(graph_id)
    ledger.resources = with_graph_digests(ledger.resources)
    consume(ledger, _of_same_change(intent, approvals), now, intent.operation_id)
    record = {
        "kind": intent.kind,
        "graph_id": graph_id,
        "outcome": ROLLED_FORWARD,
        "recovered_at": now,
    }
    ledger.recoveries[intent.operation_id] = record | ({"actor": actor} if actor else {})
    message = f"{intent.kind} {intent.operation_id} had been done and is recorded now"
    found.diagnostics.append(warning("cluster_recovery_rolled_forward", message, address))


def _of_same_change(intent: ClusterIntent, approvals: Sequence[Approval]) -> list[Approval]:
    """The approvals that an intent used: the one that it names, and others of the same change."""
    named = next((each for each in approvals if each.approval_id == intent.approval_id), None)
    if named is None:
        return []
    return [each for each in approvals if _bound(each) == _bound(named)]


def _bound(approval: Approval) -> tuple[str | None, ...]:
    return (
        approval.resource,
        approval.operation,
        approval.bound_config_digest,
        approval.bound_before_digest,
        approval.bound_after_digest,
    )


def consume(ledger: Ledger, approvals: Sequence[Approval], now: str, operation_id: str) -> None:
    for each in approvals:
        used = {"consumed_at": now, "consumed_by_operation": operation_id}
        ledger.approvals.setdefault(each.approval_id, used)


def tombstone(now: str, approval_id: str | None, actor: str | None) -> dict[str, Any]:
    found = {"kind": "tombstone", "deleted_at": now, "approval_id": approval_id, "actor": actor}
    return {name: value for name, value in found.items() if value is not None}

"""Approvals: which of them are valid for a gated change, and whether they are enough; pure.

An approval is bound to the digests of the config and of the change, so any movement ends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from omnigraph.cluster.changes import ApprovalGate
from omnigraph.cluster.declarations import ApprovalRule, ClusterDiagnostic, warning
from omnigraph.cluster.ledger import Ledger
from omnigraph.cluster.root import Approval


def is_consumed(approval: Approval, ledger: Ledger) -> bool:
    """The ledger and the file both record it, so the loss of one of them revives nothing."""
    return approval.consumed_at is not None or approval.approval_id in ledger.approvals


def is_bound(approval: Approval, gate: ApprovalGate, config_digest: str) -> bool:
    return (
        approval.bound_config_digest == config_digest
        and approval.bound_before_digest == gate.before_digest
        and approval.bound_after_digest == gate.after_digest
    )


def valid_approvals(
    gate: ApprovalGate, approvals: Iterable[Approval], ledger: Ledger, config_digest: str
) -> list[Approval]:
    return [
        each
        for each in approvals
        if (each.resource, each.operation) == (gate.resource, gate.operation)
        and not is_consumed(each, ledger)
        and is_bound(each, gate, config_digest)
    ]


def are_enough(
    approvals: Sequence[Approval], rule: ApprovalRule, least: int, actor: str | None
) -> bool:
    """Whether enough different people approved; with `distinct` the applying actor is no one."""
    people = {each.approved_by for each in approvals}
    if rule.distinct and actor is not None:
        people.discard(actor)
    return len(people) >= max(rule.required, least, 1)


def stale_warnings(
    gates: Iterable[ApprovalGate], approvals: Iterable[Approval], ledger: Ledger, config_digest: str
) -> list[ClusterDiagnostic]:
    """One for each unused approval that something moved under."""
    found = []
    known = {(gate.resource, gate.operation): gate for gate in gates}
    for each in approvals:
        gate = known.get((each.resource, each.operation))
        if is_consumed(each, ledger) or (gate is not None and is_bound(each, gate, config_digest)):
            continue
        message = (
            f"approval {each.approval_id} by {each.approved_by} has no effect: the config, the "
            "ledger or the graph moved since it was given. Approve again if it is still wanted"
        )
        found.append(warning("approval_stale", message, each.resource))
    return found

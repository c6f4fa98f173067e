"""The commands of the control plane. Each returns a report; the command line prints it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from omnigraph.cluster.apply import (
    Applied,
    apply_cluster,
    finish_creation,
    lock_of,
    mark_consumed,
)
from omnigraph.cluster.changes import ApprovalGate, ResourceChange
from omnigraph.cluster.declarations import ClusterDiagnostic, has_errors, warning
from omnigraph.cluster.desired import DesiredCluster, read_cluster
from omnigraph.cluster.ledger import (
    APPLIED,
    DRIFTED,
    FAILED,
    PENDING,
    Ledger,
    StoredLedger,
    check_graph_digests,
)
from omnigraph.cluster.lock import ClusterLock, lock_fields, read_lock
from omnigraph.cluster.observe import LiveGraph, RootState, observe_graphs
from omnigraph.cluster.recovery import sweep
from omnigraph.cluster.resources import (
    ResourceEntry,
    affected_by,
    dependencies_of,
    graph_address,
    has_payload,
    schema_address,
    with_graph_digests,
)
from omnigraph.cluster.root import LOCK, STATE, Approval, ClusterRoot
from omnigraph.cluster.session import (
    ApplyTerms,
    ClusterCall,
    InvalidConfig,
    OpenCluster,
    Proposal,
    check_targets,
    find_root,
    open_cluster,
    prepare,
)
from omnigraph.errors import ClusterRefused, OmnigraphError

PLAN_FORMAT = 1


@dataclass
class ClusterReport:
    """The result of a command: JSON fields, diagnostics, and what a person is shown."""

    command: str
    config_dir: str
    diagnostics: list[ClusterDiagnostic] = field(default_factory=list)
    body: dict[str, Any] = field(default_factory=dict)
    changes: Sequence[ResourceChange] = ()
    gates: Sequence[ApprovalGate] = ()

    @property
    def ok(self) -> bool:
        return not has_errors(self.diagnostics)

    def to_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "config_dir": self.config_dir,
            **self.body,
            "diagnostics": [each.to_dict() for each in self.diagnostics],
        }


def _reported(
    command: str, call: ClusterCall, work: Callable[[ClusterReport], None]
) -> ClusterReport:
    """Run a command; what refuses it is a diagnostic of its report."""
    report = ClusterReport(command, call.directory)
    try:
        work(report)
    except InvalidConfig as invalid:
        report.diagnostics += invalid.diagnostics
    except ClusterRefused as error:
        report.diagnostics.append(ClusterDiagnostic(error.reason, error.message, error.path))
    except OmnigraphError as error:
        report.diagnostics.append(ClusterDiagnostic(error.code, error.message))
    return report


def _observations(
    root: ClusterRoot, stored: StoredLedger, call: ClusterCall, lock: ClusterLock | None = None
) -> dict[str, Any]:
    """The block `state_observations`."""
    found = {
        "state_path": f"{root.uri}/{STATE}",
        "lock_path": f"{root.uri}/{LOCK}",
        "state_found": stored.found,
        "applied_config_digest": stored.ledger.config_digest,
        "state_revision": stored.ledger.revision,
        "state_cas": stored.cas,
        "resource_count": len(stored.ledger.resources),
        **lock_fields(root.files, call.clock.now_micros()),
        "lock_acquired": lock is not None,
        "acquired_lock_id": None if lock is None else lock.lock_id,
    }
    return {name: value for name, value in found.items() if value is not None}


def validate(call: ClusterCall) -> ClusterReport:
    """Parse and type-check everything; reads no state and no secret."""

    def work(report: ClusterReport) -> None:
        found = read_cluster(call.directory, call.environment)
        report.diagnostics += found.diagnostics
        if found.config is not None:
            report.body["config_file"] = found.config.file
        if found.desired is not None:
            report.body |= _desired_fields(found.desired)
            report.body["resources"] = found.desired.resources()

    return _reported("validate", call, work)


def _desired_fields(desired: DesiredCluster) -> dict[str, Any]:
    return {
        "resource_digests": desired.digests,
        "dependencies": [{"from": a, "to": b} for a, b in desired.dependencies],
    }


def plan(call: ClusterCall, terms: ApplyTerms) -> ClusterReport:
    """What `apply` would do now. Takes no lock and writes nothing."""

    def work(report: ClusterReport) -> None:
        cluster = open_cluster(call)
        report.diagnostics += cluster.diagnostics
        stored = cluster.root.read_ledger()
        check_targets(cluster, stored, terms.targets)
        proposal = prepare(cluster, stored, terms, lambda _: None)
        report.diagnostics += proposal.diagnostics
        _refuse_impossible(report, proposal)
        report.changes, report.gates = proposal.changes, proposal.gates
        report.body |= {
            "authority": "observed" if terms.observe else "unlocked",
            "desired_revision": {"config_digest": cluster.desired.config_digest},
            **_desired_fields(cluster.desired),
            "state_observations": _observations(cluster.root, stored, call),
            "changes": [change.to_dict() for change in proposal.changes],
            "blast_radius": _blast_radius(cluster, stored.ledger, proposal.changes),
            "approvals_required": [gate.to_dict() for gate in proposal.gates],
            "observed_schemas": _live_digests(proposal.live),
        }

    return _reported("plan", call, work)


def _refuse_impossible(report: ClusterReport, proposal: Proposal) -> None:
    """A change that apply could never make is an error already in the plan."""
    for change in proposal.changes:
        if change.reason in ("schema_change_refused", "data_loss_forbidden"):
            told = None if change.migration is None else change.migration.error
            message = told or "the change loses data, and its declaration says never"
            report.diagnostics.append(
                ClusterDiagnostic("schema_change_unsupported", message, change.resource)
            )
        elif change.reason in ("graph_incomplete", "graph_unreadable"):
            live = proposal.live.get(change.resource.partition(".")[2])
            message = (live.error if live is not None else None) or "the graph cannot be opened"
            report.diagnostics.append(ClusterDiagnostic(change.reason, message, change.resource))


def _blast_radius(
    cluster: OpenCluster, ledger: Ledger, changes: Sequence[ResourceChange]
) -> list[dict[str, Any]]:
    known = sorted({*cluster.desired.dependencies, *dependencies_of(ledger.resources)})
    found = [(change.resource, affected_by(change.resource, known)) for change in changes]
    return [{"resource": name, "affected": affected} for name, affected in found if affected]


def _live_digests(live: Mapping[str, LiveGraph]) -> dict[str, str]:
    return {name: each.schema_digest or each.state.value for name, each in sorted(live.items())}


def saved_plan(report: ClusterReport) -> dict[str, Any]:
    """What `plan --out` writes: the digests that `apply --plan` compares, and the plan to read."""
    body = report.body
    return {
        "format": PLAN_FORMAT,
        "kind": "cluster_plan",
        "config_digest": body["desired_revision"]["config_digest"],
        "state_cas": body["state_observations"].get("state_cas"),
        "observed_schemas": body["observed_schemas"],
        "changes": body["changes"],
        "approvals_required": body["approvals_required"],
    }


def require_saved_plan(
    saved: Mapping[str, Any], cluster: OpenCluster
) -> Callable[[Proposal], None]:
    """Refuses a proposal that is no longer the one that was saved."""
    if saved.get("format") != PLAN_FORMAT or saved.get("kind") != "cluster_plan":
        raise ClusterRefused("this is no plan of `cluster plan --out`", reason="invalid_saved_plan")

    def require(proposal: Proposal) -> None:
        now = {
            "config": (saved.get("config_digest"), cluster.desired.config_digest),
            "ledger": (saved.get("state_cas"), proposal.stored.cas),
            "live graphs": (saved.get("observed_schemas"), _live_digests(proposal.live)),
        }
        moved = [name for name, (then, found) in now.items() if then != found]
        if moved:
            raise ClusterRefused(
                f"the saved plan is out of date, because the {' and the '.join(moved)} changed "
                "since it was made: plan again",
                reason="saved_plan_stale",
            )

    return require


def apply(
    call: ClusterCall, terms: ApplyTerms, saved: Mapping[str, Any] | None = None
) -> ClusterReport:
    """Make the declarations true, and record it."""

    def work(report: ClusterReport) -> None:
        cluster = open_cluster(call)
        report.diagnostics += cluster.diagnostics
        require = require_saved_plan(saved, cluster) if saved is not None else lambda _: None
        done = apply_cluster(cluster, terms, require)
        report.diagnostics += done.diagnostics
        report.changes, report.gates = done.changes, done.gates
        report.body |= _applied_fields(cluster, done)

    return _reported("apply", call, work)


def _applied_fields(cluster: OpenCluster, done: Applied) -> dict[str, Any]:
    actor = cluster.call.actor
    return {
        **({} if actor is None else {"actor": actor}),
        "authority": "unlocked" if done.lock is None else "locked",
        "desired_revision": {"config_digest": cluster.desired.config_digest},
        "state_observations": _observations(cluster.root, done.stored, cluster.call, done.lock),
        "changes": [change.to_dict() for change in done.changes],
        "approvals_required": [gate.to_dict() for gate in done.gates],
        "applied_count": sum(change.is_done for change in done.changes),
        "deferred_count": sum(not change.is_done for change in done.changes),
        "converged": done.converged,
        "state_written": done.state_written,
        "resource_statuses": done.stored.ledger.statuses,
    }


def approve(call: ClusterCall, address: str) -> ClusterReport:
    """Write an approval of the gated change of a resource, as it is planned now."""

    def work(report: ClusterReport) -> None:
        if call.actor is None:
            raise ClusterRefused(
                "an approval needs the name of the person: give --as NAME, or set operator.actor",
                reason="approval_actor_missing",
                path=address,
            )
        cluster = open_cluster(call)
        report.diagnostics += cluster.diagnostics
        lock = lock_of(cluster, "approve")
        with lock if lock is not None else nullcontext():
            stored = cluster.root.read_ledger()
            check_targets(cluster, stored, (address,))
            proposal = prepare(cluster, stored, ApplyTerms(), lambda _: None)
            gate = next((each for each in proposal.gates if each.resource == address), None)
            if gate is None:
                raise ClusterRefused(
                    f"no change of {address} needs an approval now",
                    reason="approval_not_required",
                    path=address,
                )
            approval = Approval(
                approval_id=call.clock.new_ulid(),
                resource=address,
                operation=gate.operation,
                reason=gate.reason,
                bound_config_digest=cluster.desired.config_digest,
                bound_before_digest=gate.before_digest,
                bound_after_digest=gate.after_digest,
                approved_by=call.actor,
                created_at=call.now(),
            )
            cluster.root.write_approval(approval)
        report.body |= {
            "approval_id": approval.approval_id,
            "resource": address,
            "operation": gate.operation,
            "reason": gate.reason,
            "approved_by": call.actor,
        }

    return _reported("approve", call, work)


def _status_fields(
    root: ClusterRoot, stored: StoredLedger, call: ClusterCall, lock: ClusterLock | None = None
) -> dict[str, Any]:
    ledger = stored.ledger
    return {
        "state_observations": _observations(root, stored, call, lock),
        "resource_digests": {name: each.digest for name, each in ledger.resources.items()},
        "resource_statuses": ledger.statuses,
        "observations": ledger.observations,
    }


def status(call: ClusterCall) -> ClusterReport:
    """The ledger, the lock and the catalog; takes no lock and opens no graph."""

    def work(report: ClusterReport) -> None:
        root, diagnostics = find_root(call)
        report.diagnostics += diagnostics
        stored = root.read_ledger()
        if not stored.found:
            message = f"{root.uri} has no ledger yet: run `cluster apply`"
            report.diagnostics.append(warning("state_missing", message, STATE))
        report.diagnostics += catalog_problems(root, stored.ledger).values()
        report.body |= {"authority": "unlocked", **_status_fields(root, stored, call)}

    return _reported("status", call, work)


def catalog_problems(root: ClusterRoot, ledger: Ledger) -> dict[str, ClusterDiagnostic]:
    """The texts that the ledger names and the catalog does not have as they were, by address."""
    found = {}
    for address, entry in ledger.resources.items():
        if has_payload(address):
            try:
                root.payload(address, entry.digest)
            except ClusterRefused as error:
                found[address] = ClusterDiagnostic(error.reason, error.message, address)
    return found


def _judge(
    ledger: Ledger,
    live: Mapping[str, LiveGraph],
    desired: DesiredCluster | None,
    call: ClusterCall,
    report: ClusterReport,
) -> None:
    """Record the live graphs in a ledger, with the status of those that drifted."""
    now = call.now()
    for graph_id, each in live.items():
        address, schema = graph_address(graph_id), schema_address(graph_id)
        wanted = desired.entries.get(schema) if desired is not None else None
        expected = ledger.digest(schema) if wanted is None else wanted.digest
        tombstone = ledger.observations.get(address, {}).get("kind") == "tombstone"
        if each.state is RootState.ABSENT and address not in ledger.resources:
            if not tombstone and desired is not None:
                ledger.set_status(address, PENDING, ("graph_not_created",))
            continue
        ledger.observations[address] = each.to_dict(now, expected)
        applied = ledger.digest(schema)
        if each.is_open:
            drifted = applied is not None and applied != each.schema_digest
            ledger.set_status(address, APPLIED if not drifted else DRIFTED)
            if drifted:
                message = "the schema of the graph is not the one that was applied"
                ledger.set_status(schema, DRIFTED, ("schema_mismatch",), message)
                report.diagnostics.append(warning("schema_mismatch", message, schema))
            else:
                ledger.set_status(schema, APPLIED)
            continue
        code = "graph_missing" if each.state is RootState.ABSENT else f"graph_{each.state.value}"
        message = each.error or f"there is no graph at {each.uri}"
        ledger.set_status(address, FAILED, (code,), message)
        report.diagnostics.append(ClusterDiagnostic(code, message, address))


def observe(call: ClusterCall) -> ClusterReport:
    """The report of `refresh` without its lock, sweep and write."""

    def work(report: ClusterReport) -> None:
        found = None
        try:
            cluster = open_cluster(call)
            root, found = cluster.root, cluster.desired
            report.diagnostics += cluster.diagnostics
        except InvalidConfig:
            root, diagnostics = find_root(call)
            report.diagnostics += diagnostics
        stored = root.read_ledger()
        ledger = stored.ledger.copy()
        check_graph_digests(ledger)
        declared = found.config.graphs if found is not None else {}
        live = observe_graphs(root, {*declared, *ledger.graph_ids}, call.settings)
        _judge(ledger, live, found, call, report)
        _doubt_payloads(root, ledger, report)
        body = _status_fields(root, StoredLedger(ledger, stored.data), call)
        report.body |= {"authority": "observed", "operation": "observe", **body}

    return _reported("observe", call, work)


def _doubt_payloads(root: ClusterRoot, ledger: Ledger, report: ClusterReport) -> None:
    for address, problem in catalog_problems(root, ledger).items():
        ledger.set_status(address, FAILED, (problem.code,), problem.message)
        report.diagnostics.append(problem)


def refresh(call: ClusterCall) -> ClusterReport:
    """Settle intents, look at catalog and graphs, and record what is there."""

    def work(report: ClusterReport) -> None:
        cluster = open_cluster(call)
        report.diagnostics += cluster.diagnostics
        lock = lock_of(cluster, "refresh")
        with lock if lock is not None else nullcontext():
            stored = cluster.root.read_ledger()
            if not stored.found:
                raise ClusterRefused(
                    f"{cluster.root.uri} has no ledger: run `cluster apply` or `cluster import`",
                    reason="state_missing",
                    path=STATE,
                )
            check_graph_digests(stored.ledger)
            stored = _refreshed(cluster, stored, lock, report)
        if lock is not None:
            report.diagnostics += lock.diagnostics
        fields = _status_fields(cluster.root, stored, call, lock)
        authority = "unlocked" if lock is None else "locked"
        report.body |= {"authority": authority, "operation": "refresh", **fields}

    return _reported("refresh", call, work)


def _refreshed(
    cluster: OpenCluster, stored: StoredLedger, lock: ClusterLock | None, report: ClusterReport
) -> StoredLedger:
    root, call = cluster.root, cluster.call
    intents, approvals = root.intents(), root.approvals()
    graphs = {*cluster.config.graphs, *stored.ledger.graph_ids}
    graphs |= {each.graph_id for each in intents}
    live = observe_graphs(root, graphs, call.settings)
    swept = sweep(
        stored.ledger,
        intents,
        live,
        approvals=approvals,
        is_released=lambda _: False,
        finish_creation=lambda intent: finish_creation(cluster, intent),
        now=call.now(),
        actor=call.actor,
    )
    report.diagnostics += swept.diagnostics
    ledger = swept.ledger
    _judge(ledger, live, cluster.desired, call, report)
    _doubt_payloads(root, ledger, report)
    ledger.statuses.update(swept.statuses)
    if lock is not None:
        lock.require()
    written = root.write_ledger(ledger, stored)
    for operation_id in swept.retire:
        root.retire_intent(operation_id)
    mark_consumed(root, approvals, ledger)
    return written


def import_cluster(call: ClusterCall) -> ClusterReport:
    """Create the first ledger from the declared graphs that exist; an error writes nothing."""

    def work(report: ClusterReport) -> None:
        cluster = open_cluster(call)
        report.diagnostics += cluster.diagnostics
        root = cluster.root
        lock = lock_of(cluster, "import")
        with lock if lock is not None else nullcontext():
            stored = root.read_ledger()
            if stored.found:
                raise ClusterRefused(
                    f"{root.uri} has a ledger already: run `cluster refresh`",
                    reason="state_already_exists",
                    path=STATE,
                )
            ledger = Ledger()
            live = observe_graphs(root, cluster.config.graphs, call.settings)
            for graph_id, each in live.items():
                if each.schema_digest is not None:
                    ledger.resources[schema_address(graph_id)] = ResourceEntry(each.schema_digest)
                    ledger.resources[graph_address(graph_id)] = ResourceEntry("")
            ledger.resources = with_graph_digests(ledger.resources)
            _judge(ledger, live, cluster.desired, call, report)
            if report.ok:
                stored = root.write_ledger(ledger, stored)
        fields = _status_fields(root, stored, call, lock)
        report.body |= {"authority": "locked", "operation": "import", **fields}

    return _reported("import", call, work)


def force_unlock(call: ClusterCall, lock_id: str) -> ClusterReport:
    """Remove the lock with exactly this id."""

    def work(report: ClusterReport) -> None:
        root, diagnostics = find_root(call)
        report.diagnostics += diagnostics
        report.body["lock_removed"] = False
        found = read_lock(root.files)
        if found is None:
            message = "there is no lock"
            raise ClusterRefused(message, reason="state_lock_missing", path=LOCK)
        lock, data = found
        if lock.lock_id != lock_id:
            message = f"the lock has the id {lock.lock_id}, not {lock_id}"
            raise ClusterRefused(message, reason="state_lock_id_mismatch", path=LOCK)
        root.files.delete_exactly(LOCK, data)
        report.body["lock_removed"] = True
        stored = root.read_ledger()
        report.body["state_observations"] = _observations(root, stored, call)

    return _reported("force-unlock", call, work)

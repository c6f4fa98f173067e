"""`apply`: observe, classify, decide, act, record.

The plan is made under the lock. Every change of a graph is announced by an intent and recorded by
one swap of the ledger at the end, so a process may die anywhere: the next apply settles the intents
and goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph import failpoints
from omnigraph.cluster.changes import (
    CREATE,
    DELETE,
    UPDATE,
    ApprovalGate,
    ResourceChange,
    classify,
    next_ledger,
)
from omnigraph.cluster.declarations import ERROR, ClusterDiagnostic, warning
from omnigraph.cluster.graph_work import change_schema, create_graph, load_seed
from omnigraph.cluster.ledger import FAILED, Ledger, StoredLedger
from omnigraph.cluster.lock import ClusterLock
from omnigraph.cluster.observe import observe_graph
from omnigraph.cluster.recovery import (
    IntentState,
    classify_intent,
    consume,
    tombstone,
)
from omnigraph.cluster.resources import (
    GRAPH,
    RETENTION,
    SCHEMA,
    catalog_key,
    graph_address,
    has_payload,
    kind_of,
    name_of,
)
from omnigraph.cluster.root import CREATE as CREATE_INTENT
from omnigraph.cluster.root import DELETE as DELETE_INTENT
from omnigraph.cluster.root import SCHEMA_APPLY, Approval, ClusterIntent, ClusterRoot
from omnigraph.cluster.session import ApplyTerms, OpenCluster, Proposal, check_targets, prepare
from omnigraph.commit.export_marks import removal_mark
from omnigraph.commit.intents import IntentBoard
from omnigraph.errors import ClusterRefused, OmnigraphError


@dataclass(frozen=True, slots=True)
class Applied:
    """What an apply did."""

    stored: StoredLedger
    changes: Sequence[ResourceChange]
    gates: Sequence[ApprovalGate]
    diagnostics: Sequence[ClusterDiagnostic]
    state_written: bool
    lock: ClusterLock | None

    @property
    def converged(self) -> bool:
        done = all(change.is_done for change in self.changes)
        return done and not any(each.severity == ERROR for each in self.diagnostics)


def lock_of(cluster: OpenCluster, operation: str) -> ClusterLock | None:
    """The lock of a command; None when the config turns it off."""
    if not cluster.config.lock:
        return None
    call = cluster.call
    return ClusterLock(cluster.root.files, operation, call.clock, call.lock_timeout)


def apply_cluster(
    cluster: OpenCluster,
    terms: ApplyTerms,
    require_plan: Callable[[Proposal], None] = lambda _: None,
) -> Applied:
    """Make the desired state true. `require_plan` refuses what a saved plan does not say."""
    lock = lock_of(cluster, "apply")
    with lock if lock is not None else nullcontext():
        stored = cluster.root.read_ledger()
        check_targets(cluster, stored, terms.targets)
        proposal = prepare(cluster, stored, terms, lambda intent: finish_creation(cluster, intent))
        require_plan(proposal)
        run = _ApplyRun(cluster, proposal, run_id=cluster.call.clock.new_ulid())
        run.act()
        if lock is not None:
            lock.require()
        written, state_written = run.record()
        lock_warnings = [] if lock is None else lock.diagnostics
        return Applied(
            written,
            run.changes,
            proposal.gates,
            [*lock_warnings, *proposal.diagnostics, *run.diagnostics],
            state_written,
            lock,
        )


def finish_creation(cluster: OpenCluster, intent: ClusterIntent) -> None:
    """Load the seed data of a graph after its init; a second time changes nothing."""
    graph = cluster.config.graphs.get(intent.graph_id)
    if graph is not None and graph.seed is not None:
        load_seed(
            intent.graph_uri,
            graph,
            cluster.settings_of(intent.graph_id, embeds=True),
            directory=cluster.config.directory,
            actor=cluster.call.actor,
            operation_id=intent.operation_id,
        )


@dataclass
class _ApplyRun:
    """One apply: the changes that it may make, and what became of them."""

    cluster: OpenCluster
    proposal: Proposal
    diagnostics: list[ClusterDiagnostic] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    statuses: dict[str, dict[str, Any]] = field(default_factory=dict)
    intents: list[ClusterIntent] = field(default_factory=list)
    used: dict[str, list[Approval]] = field(default_factory=dict)
    """By operation id: the approvals that it used."""
    stopped: bool = False
    run_id: str = ""
    """Stands in the records of approvals whose change needed no intent."""

    @property
    def changes(self) -> list[ResourceChange]:
        """The changes, judged with what has failed so far."""
        facts = replace(self.proposal.facts, failed=self.failed)
        return classify(self.proposal.proposed, facts)

    def act(self) -> None:
        for change in self.proposal.changes:
            self._graph_moving(change, GRAPH, CREATE, "graph_create", self._create)
        for change in self.proposal.changes:
            self._graph_moving(change, SCHEMA, UPDATE, "schema_apply", self._change_schema)
        self._payloads()
        for change in self.proposal.changes:
            self._graph_moving(change, GRAPH, DELETE, "graph_delete", self._delete)
        self._explain_blocked()

    def _graph_moving(
        self,
        change: ResourceChange,
        kind: str,
        operation: str,
        name: str,
        act: Callable[[ResourceChange, str], None],
    ) -> None:
        """Carry out one change of a graph. After the first failure the others are left out."""
        wanted = kind_of(change.resource) == kind and change.operation == operation
        if not wanted or not change.moves_graph or not change.is_done:
            return
        graph_id = name_of(change.resource)
        if self.stopped or graph_id in self.failed:
            message = "left out, because an earlier change of a graph failed"
            self.diagnostics.append(warning(f"{name}_skipped", message, change.resource))
            self.failed.setdefault(graph_id, f"{name}_skipped")
            return
        try:
            act(change, graph_id)
        except OmnigraphError as error:
            self.stopped = True
            code = error.reason if isinstance(error, ClusterRefused) else f"{name}_failed"
            self.failed[graph_id] = code
            self.diagnostics.append(ClusterDiagnostic(code, error.message, change.resource))
            self.statuses[change.resource] = {
                "status": FAILED,
                "conditions": [code],
                "message": error.message,
            }
            self._drop_unused_intent(graph_id)

    def _drop_unused_intent(self, graph_id: str) -> None:
        """An intent left by a refusal of the engine would block the graph for no reason."""
        for intent in [each for each in self.intents if each.graph_id == graph_id]:
            live = observe_graph(self.cluster.root, graph_id, self.cluster.call.settings)
            state = classify_intent(intent, live, self.proposal.swept.ledger)
            self.intents.remove(intent)
            self.used.pop(intent.operation_id, None)
            if state in (IntentState.NOTHING_DONE, IntentState.RECORDED):
                self.cluster.root.retire_intent(intent.operation_id)

    def _announce(self, change: ResourceChange, graph_id: str, kind: str) -> ClusterIntent:
        call, root = self.cluster.call, self.cluster.root
        gate = next(
            (
                each
                for each in self.proposal.gates
                if (each.resource, each.operation) == (change.resource, change.operation)
            ),
            None,
        )
        used = [] if gate is None else self._approvals_of(gate)
        live = self.proposal.live.get(graph_id)
        schema = self.cluster.desired.entries.get(f"{SCHEMA}.{graph_id}")
        intent = ClusterIntent(
            operation_id=call.clock.new_ulid(),
            started_at=call.now(),
            kind=kind,
            graph_id=graph_id,
            graph_uri=root.graph_uri(graph_id),
            desired_schema_digest="" if schema is None else schema.digest,
            actor=call.actor,
            observed_manifest_version=None if live is None else live.manifest_version,
            state_cas_base=self.proposal.stored.cas,
            approval_id=used[0].approval_id if used else None,
        )
        root.write_intent(intent)
        self.intents.append(intent)
        self.used[intent.operation_id] = used
        return intent

    def _create(self, change: ResourceChange, graph_id: str) -> None:
        intent = self._announce(change, graph_id, CREATE_INTENT)
        failpoints.hit("cluster_apply.before_graph_create")
        create_graph(
            intent.graph_uri,
            self.cluster.desired.schemas[graph_id],
            self.cluster.settings_of(graph_id),
            actor=self.cluster.call.actor,
        )
        finish_creation(self.cluster, intent)
        failpoints.hit("cluster_apply.after_graph_create")

    def _change_schema(self, change: ResourceChange, graph_id: str) -> None:
        intent = self._announce(change, graph_id, SCHEMA_APPLY)
        failpoints.hit("cluster_apply.before_schema_apply")
        change_schema(
            intent.graph_uri,
            self.cluster.desired.schemas[graph_id],
            self.cluster.config.graphs[graph_id],
            self.cluster.settings_of(graph_id),
            actor=self.cluster.call.actor,
            lossy=change.migration is not None and change.migration.lossy,
        )
        failpoints.hit("cluster_apply.after_schema_apply")

    def _delete(self, change: ResourceChange, graph_id: str) -> None:
        approved = {(g.resource, g.operation) for g in self.proposal.gates if g.satisfied}
        if (change.resource, change.operation) not in approved:
            raise ClusterRefused(
                f"{change.resource} would be deleted without an approval",
                reason="apply_approval_invariant_violation",
                path=change.resource,
            )
        root = self.cluster.root
        with self._no_exports(graph_id):
            self._announce(change, graph_id, DELETE_INTENT)
            failpoints.hit("cluster_apply.before_graph_delete")
            root.delete_manifest(graph_id)
        root.delete_graph(graph_id)
        failpoints.hit("cluster_apply.after_graph_delete")

    @contextmanager
    def _no_exports(self, graph_id: str) -> Iterator[None]:
        """Refuse while the graph is exported, and keep exports from beginning."""
        call = self.cluster.call
        board = IntentBoard(self.cluster.root.graph_files(graph_id), call.clock)
        with removal_mark(board, call.clock, call.settings.write, call.actor) as exports:
            if exports:
                names = sorted({each.actor_id or "an unnamed actor" for each in exports})
                raise ClusterRefused(
                    f"{', '.join(names)} exports this graph now: apply again when the export has "
                    "ended. Nothing of the graph was removed",
                    reason="graph_delete_export_in_progress",
                    path=graph_address(graph_id),
                )
            yield

    def _payloads(self) -> None:
        """Write the texts that the ledger will name and the catalog does not have."""
        root, desired = self.cluster.root, self.cluster.desired
        after = self._next()
        wanted = {
            address: entry for address, entry in after.resources.items() if has_payload(address)
        }
        present = root.catalog_keys() if wanted else frozenset()
        doubted = {
            address
            for address, status in self.proposal.stored.ledger.statuses.items()
            if status.get("status") == FAILED
        }
        for address, entry in wanted.items():
            data = desired.payloads.get(address)
            known = catalog_key(address, entry.digest) in present
            if data is None or desired.entries[address].digest != entry.digest:
                continue
            if not known or address in doubted:
                root.put_payload(address, data)
        failpoints.hit("cluster_apply.after_payload_phase")

    def _explain_blocked(self) -> None:
        """A warning for each change that was not made, and an error for one that cannot be."""
        for change in self.changes:
            if change.is_done or change.resource in self.statuses:
                continue
            path, reason = change.resource, change.reason or ""
            match reason:
                case "schema_change_refused" | "data_loss_forbidden":
                    told = change.migration.error if change.migration is not None else None
                    message = told or "the change loses data, and its declaration says never"
                    self.diagnostics.append(ClusterDiagnostic("schema_apply_failed", message, path))
                case "graph_incomplete" | "graph_unreadable":
                    live = self.proposal.live[name_of(path)]
                    message = live.error or "the graph cannot be opened"
                    self.diagnostics.append(ClusterDiagnostic(reason, message, path))
                case "approval_required":
                    message = f"waits for an approval: `omnigraph cluster approve {path}`"
                    code = "apply_unsupported_change"
                    if kind_of(path) in (GRAPH, SCHEMA, RETENTION):
                        self.diagnostics.append(warning(code, message, path))
                case "dependency_not_applied":
                    message = "waits for a change that it depends on"
                    self.diagnostics.append(warning("apply_dependency_blocked", message, path))
                case _:
                    pass

    def _next(self) -> Ledger:
        statuses = {**self.proposal.swept.statuses, **self.statuses}
        changes = self.changes
        after = next_ledger(self.proposal.swept.ledger, self.cluster.desired, changes, statuses)
        deleted = {
            name_of(each.resource)
            for each in changes
            if each.is_done and each.operation == DELETE and kind_of(each.resource) == GRAPH
        }
        now = self.cluster.call.now()
        for gate in (*self.proposal.swept.released, *self._recorded_gates(changes)):
            consume(after, self._approvals_of(gate), now, self.run_id)
        for intent in self.intents:
            consume(after, self.used[intent.operation_id], now, intent.operation_id)
            if intent.kind == DELETE_INTENT and intent.graph_id in deleted:
                address = graph_address(intent.graph_id)
                mark = tombstone(now, intent.approval_id, intent.actor)
                after.observations[address] = mark
        return after

    def _recorded_gates(self, changes: Sequence[ResourceChange]) -> list[ApprovalGate]:
        """Gates of changes that move no graph and were made: the ledger alone records them."""
        made = {
            (each.resource, each.operation)
            for each in changes
            if each.is_done and not each.moves_graph
        }
        return [g for g in self.proposal.gates if (g.resource, g.operation) in made]

    def _approvals_of(self, gate: ApprovalGate) -> list[Approval]:
        return self.proposal.used_approvals(gate, self.cluster.desired.config_digest)

    def record(self) -> tuple[StoredLedger, bool]:
        """Swap the ledger if it changed, then let go of intents and approvals."""
        stored, root = self.proposal.stored, self.cluster.root
        after = self._next()
        failpoints.hit("cluster_apply.before_state_write")
        after.revision = stored.ledger.revision
        changed = not stored.found or after.to_dict() != stored.ledger.to_dict()
        if changed:
            stored = root.write_ledger(after, stored)
        failpoints.hit("cluster_apply.after_state_write")
        swept = self.proposal.swept
        done = [each.operation_id for each in self.intents]
        created = {each.graph_id for each in self.intents}
        repeated = [old for graph_id, old in swept.repeat.items() if graph_id in created]
        for operation_id in (*swept.retire, *repeated, *done):
            root.retire_intent(operation_id)
        mark_consumed(root, self.proposal.approvals, stored.ledger)
        return stored, changed


def mark_consumed(root: ClusterRoot, approvals: Sequence[Approval], ledger: Ledger) -> None:
    """Bring the files of approvals in line with the ledger, also after a crash."""
    for each in approvals:
        record = ledger.approvals.get(each.approval_id)
        if record is not None and each.consumed_at is None:
            root.mark_consumed(each, record["consumed_at"], record["consumed_by_operation"])

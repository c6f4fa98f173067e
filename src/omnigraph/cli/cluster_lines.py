"""Cluster reports as text: the tree of changes, what waits for an approval, and findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from omnigraph.cli.output import GREEN, MAGENTA, RED, YELLOW, Paint
from omnigraph.cluster.changes import (
    CREATE,
    DELETE,
    DERIVED,
    UPDATE,
    ApprovalGate,
    ResourceChange,
    retention_of,
)
from omnigraph.cluster.commands import ClusterReport
from omnigraph.cluster.declarations import ERROR
from omnigraph.cluster.resources import (
    GRAPH,
    RETENTION,
    ResourceEntry,
    graph_of,
    kind_of,
    name_of,
)
from omnigraph.values.plurals import counted

_MARKS = {CREATE: ("+", GREEN), UPDATE: ("~", YELLOW), DELETE: ("-", RED)}
_REASONS = {
    "approval_required": "waits for an approval",
    "graph_missing": "its root is gone; it would be created again, empty",
    "cluster_recovery_pending": "waits: an interrupted change of its graph is not settled",
    "dependency_not_applied": "waits for a change that it depends on",
    "not_targeted": "not a target of this run",
    "adopted": "the graph exists already and is taken over",
    "drifted": "the live schema is not the one that was applied",
    "schema_change_refused": "the engine refuses this change",
    "retention_cut": "it keeps less than before",
    "data_loss_forbidden": "it would lose data, and allow_data_loss is never",
}
_IN_THE_TREE = ("apply_dependency_blocked", "apply_unsupported_change")
_GATES = {
    "graph_delete": "deletes a graph with all its data",
    "graph_missing": "creates a lost graph again, empty",
    "data_loss": "loses data",
    "retention_cut": "lets cleanup remove commits that are kept now",
    "cluster_recovery_pending": "lets go of an interrupted change",
}


def plan_lines(report: ClusterReport, paint: Paint) -> Iterator[str]:
    """The tree of changes, then what needs an approval and what is affected."""
    yield from change_lines(report.changes, paint)
    if not report.changes and report.ok:
        yield "no changes: the cluster is as declared"
    yield from gate_lines(report.gates, paint)
    affected = report.body.get("blast_radius", ())
    own = {change.resource for change in report.changes}
    # An update of a graph follows from its parts, which are listed themselves.
    derived = {
        each.resource
        for each in report.changes
        if kind_of(each.resource) == GRAPH and each.operation == UPDATE
    }
    affected = [each for each in affected if each["resource"] not in derived]
    others = [
        (each["resource"], [a for a in each["affected"] if a not in own]) for each in affected
    ]
    touched = [(name, names) for name, names in others if names]
    if touched:
        yield "also affected:"
        yield from (f"  {name} → {', '.join(names)}" for name, names in touched)
    if report.changes:
        yield summary(report.changes)


def change_lines(changes: Sequence[ResourceChange], paint: Paint) -> Iterator[str]:
    """Graphs with their schema and queries below them, then policies and providers."""
    by_graph: dict[str | None, list[ResourceChange]] = {}
    for change in changes:
        by_graph.setdefault(graph_of(change.resource), []).append(change)
    for graph_id in sorted(name for name in by_graph if name is not None):
        members = by_graph[graph_id]
        own = next((each for each in members if kind_of(each.resource) == GRAPH), None)
        yield f"graph {graph_id}" if own is None else _line(own, f"graph {graph_id}", paint)
        deleted = own is not None and own.operation == DELETE
        for change in members:
            if change is not own:
                kind = kind_of(change.resource)
                title = kind if kind != "query" else f"query {name_of(change.resource)}"
                yield f"  {_line(change, title, paint)}"
                yield from (f"    {step}" for step in _steps(change, paint, deleted=deleted))
    for change in by_graph.get(None, ()):
        title = change.resource.replace(".", " ", 1)
        yield _line(change, title, paint)


def _line(change: ResourceChange, title: str, paint: Paint) -> str:
    mark, colour = _MARKS[change.operation]
    notes = []
    if change.disposition == DERIVED:
        notes.append("follows from its parts")
    if change.metadata_change is not None:
        notes.append(change.metadata_change.replace("_", " "))
    if change.reason is not None:
        notes.append(_REASONS.get(change.reason, change.reason.replace("_", " ")))
    told = f"  ({'; '.join(notes)})" if notes else ""
    shown = paint(colour, f"{mark} {title}")
    return f"{shown}{told if change.is_done else paint(MAGENTA, told)}"


def _kept(entry: ResourceEntry | None) -> str:
    """What a retention keeps readable, in words."""
    rule = retention_of(entry)
    parts = [] if rule.keep is None else [counted(rule.keep, "commit")]
    if rule.older_than_micros is not None:
        parts.append(f"the last {_duration(rule.older_than_micros)}")
    return " and ".join(parts) or "every commit"


def _duration(micros: int) -> str:
    """As a person writes it: `30d`, `12h`."""
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if micros and micros % (seconds * 1_000_000) == 0:
            return f"{micros // (seconds * 1_000_000)}{unit}"
    return f"{micros / 1_000_000:g}s"


def _steps(change: ResourceChange, paint: Paint, *, deleted: bool) -> Iterator[str]:
    """What a change does, in words; `deleted` says that its whole graph goes."""
    if kind_of(change.resource) == RETENTION and not deleted:
        before = "" if change.before is None and change.is_done else f"{_kept(change.before)} -> "
        yield f"cleanup keeps {before}{_kept(change.after)}"
    migration = change.migration
    if migration is None:
        return
    for line in migration.lines:
        colour = RED if line.startswith(("-", "x", "!")) else None
        yield line if colour is None else paint(colour, line)
    if migration.unavailable:
        yield f"the steps are not known: {migration.error}"


def gate_lines(gates: Sequence[ApprovalGate], paint: Paint) -> Iterator[str]:
    waiting = [gate for gate in gates if not gate.satisfied]
    if waiting:
        yield paint(MAGENTA, "needs an approval:")
    for gate in waiting:
        reason = _GATES.get(gate.reason, gate.reason)
        yield f"  omnigraph cluster approve {gate.resource}    # {reason}"


def summary(changes: Sequence[ResourceChange]) -> str:
    """`2 to create, 1 to update, 0 to delete; 1 waits`."""
    counts = dict.fromkeys((CREATE, UPDATE, DELETE), 0)
    for change in changes:
        if change.disposition != DERIVED and change.is_done:
            counts[change.operation] += 1
    waiting = sum(not change.is_done for change in changes)
    told = ", ".join(f"{count} to {name}" for name, count in counts.items())
    return f"{told}; {waiting} {'waits' if waiting == 1 else 'wait'}"


def apply_lines(report: ClusterReport, paint: Paint) -> Iterator[str]:
    if "converged" not in report.body:
        return
    yield from change_lines(report.changes, paint)
    yield from gate_lines(report.gates, paint)
    body = report.body
    revision = body["state_observations"]["state_revision"]
    if not report.changes and body["converged"]:
        yield f"nothing to do: the cluster is as declared (revision {revision})"
        return
    done = counted(body["applied_count"], "change")
    rest = body["deferred_count"]
    ending = "" if not rest else f"; {rest} {'waits' if rest == 1 else 'wait'}"
    yield f"applied {done} as revision {revision}{ending}"


def status_lines(report: ClusterReport, paint: Paint) -> Iterator[str]:
    """One line for each resource, and the state of ledger and lock."""
    seen = report.body.get("state_observations")
    if seen is None:
        return
    yield f"ledger {seen['state_path']}  revision {seen['state_revision']}"
    if seen["locked"]:
        operation = seen.get("lock_operation", "unknown")
        age = seen.get("lock_age_seconds", "?")
        yield paint(YELLOW, f"locked by `{operation}` for {age} s, id {seen.get('lock_id')}")
    statuses: dict[str, Any] = report.body.get("resource_statuses", {})
    colours = {"applied": GREEN, "error": RED}
    for address in sorted({*report.body.get("resource_digests", {}), *statuses}):
        found = statuses.get(address, {"status": "applied", "conditions": []})
        state = found["status"]
        conditions = f"  ({', '.join(found['conditions'])})" if found["conditions"] else ""
        yield f"  {paint(colours.get(state, YELLOW), f'{state:8}')} {address}{conditions}"


def finding_lines(report: ClusterReport, paint: Paint) -> Iterator[str]:
    """The findings, without those that the tree of changes tells."""
    for each in report.diagnostics:
        if each.code in _IN_THE_TREE:
            continue
        colour = RED if each.severity == ERROR else YELLOW
        text = str(each)
        yield text.replace(each.severity, paint(colour, each.severity), 1)

"""Clusters for tests: a directory that declares graphs, commands on it, a clock that is ahead."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from omnigraph.cluster import commands
from omnigraph.cluster.commands import ClusterReport
from omnigraph.cluster.session import ApplyTerms, ClusterCall
from omnigraph.graph.export_streams import ndjson_stream
from omnigraph.graph.open import open_graph
from omnigraph.values.clock import SystemClock
from omnigraph.values.processes import this_process
from omnigraph_testing.crash import Report

PEOPLE = "node Person {\n  name: String @key\n  age: I64?\n}\n"
BY_NAME = (
    "query by_name($name: String) {\n  match { $p: Person { name: $name } }\n"
    "  return { $p.name }\n}\n"
)
POLICY = (
    "version: 1\ngroups: {devs: [ada]}\nrules:\n"
    "  - id: devs-read\n    allow: {actors: {group: devs}, actions: [read]}\n"
)


class LaterClock(SystemClock):
    """The clock of the machine, some seconds ahead: leases of the past have ended."""

    def __init__(self, seconds: float = 61.0) -> None:
        super().__init__()
        self._ahead = int(seconds * 1_000_000)

    def now_micros(self) -> int:
        return super().now_micros() + self._ahead


def write(directory: Path, **files: str) -> None:
    """Write files; `people_pg="…"` is `people.pg`."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        stem, _, suffix = name.rpartition("_")
        (directory / f"{stem}.{suffix}").write_text(text)


def declare(directory: Path, *lines: str, storage: str | None = None) -> None:
    """Write `cluster.yaml`: `lines` stand after `version: 1`."""
    head = ["version: 1", *([f"storage: {storage}"] if storage else [])]
    write(directory, cluster_yaml="\n".join([*head, *lines]) + "\n")


def call(directory: Path | str, actor: str | None = "ada", **more: Any) -> ClusterCall:
    return ClusterCall(str(directory), actor=actor, **more)


def apply(
    directory: Path | str, *targets: str, actor: str | None = "ada", **more: Any
) -> ClusterReport:
    return commands.apply(call(directory, actor, **more), ApplyTerms(targets))


def plan(directory: Path | str, *targets: str, **more: Any) -> ClusterReport:
    return commands.plan(call(directory, **more), ApplyTerms(targets))


def codes(report: ClusterReport) -> list[str]:
    return [each.code for each in report.diagnostics]


def dispositions(report: ClusterReport) -> dict[str, tuple[str, str, str | None]]:
    """By resource: operation, disposition, reason."""
    return {
        each.resource: (each.operation, each.disposition, each.reason) for each in report.changes
    }


def apply_in_child(report: Report, directory: str) -> None:
    """A workload for `omnigraph_testing.crash`: one apply, which a failpoint may kill."""
    done = apply(directory)
    report({"ok": done.ok, "codes": codes(done), "converged": done.body.get("converged")})


def tell_process(report: Report) -> None:
    """A workload that tells its identity and ends."""
    report({"process": this_process()})


def export_for_ever(report: Report, uri: str) -> None:
    """A workload: an export whose reader never takes its second chunk."""
    with open_graph(uri, read_only=True) as graph:
        lines = ndjson_stream(graph.engine, graph.snapshot(), is_head=True)
        next(lines)
        report("exporting")
        threading.Event().wait()

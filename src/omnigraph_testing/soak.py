"""A soak test: writers on five branches, merges, readers, upkeep and cleanup at the same time.

Processes are killed at random. Every acknowledged commit must be in the graph, and every snapshot
that a reader reads must be correct. `python -m bench soak` runs the long soak test.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Any

from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph.manifest.layout import HISTORY
from omnigraph_testing import crash
from omnigraph_testing.crash import Child
from omnigraph_testing.invariants import assert_at_rest
from omnigraph_testing.soak_roles import (
    BRANCHES,
    KEPT_COMMITS,
    SoakModel,
    counts_of,
    first_edits,
    soak_catalog,
    soak_settings,
)

_ROLES = "omnigraph_testing.soak_roles"
_POLL_SECONDS = 0.05
_STUCK_SECONDS = 180.0

Medians = dict[str, tuple[float, float]]
"""Operation -> milliseconds on this graph and on a new graph with the same rows."""


@dataclass(frozen=True, slots=True)
class SoakPlan:
    """How long a soak test runs and how often it kills."""

    commits: int
    seed: int = 1
    commits_per_writer: int = 1500
    writers: int = 2
    kill_share: float = 0.7
    """The share of processes that are killed. The others end by themselves or at the end."""
    life_seconds: float = 40.0
    """The longest life of a process that is killed."""
    pause_seconds: float = 0.5
    """The pause between two merges, and between two steps of upkeep."""
    minimum_age: float = 20.0
    """The age of what cleanup removes. A slower read gets the error that its snapshot is gone."""
    warm_commits: int = 500
    """Commits before the first measurement."""
    samples: int = 100
    """Samples of each operation in a measurement; 0 measures nothing."""


@dataclass(slots=True)
class SoakReport:
    """The result of a soak test."""

    commits: int = 0
    kills: int = 0
    seconds: float = 0.0
    done: Counter[str] = field(default_factory=Counter)
    measurements: list[Medians] = field(default_factory=list)
    reads_back: list[tuple[int, int, float]] = field(default_factory=list)
    """(operation of its branch, commits of its process, CPU milliseconds) of writers' reads."""
    head_reads: list[tuple[int, float]] = field(default_factory=list)
    """(commits so far, CPU milliseconds) of queries of heads that moved, by the one reader."""
    disk: list[tuple[int, int, int]] = field(default_factory=list)
    """(commits, bytes of the graph, bytes of its commit log)."""


@dataclass(slots=True)
class _RoleProcess:
    """A running process and the time when it is killed."""

    role: str
    child: Child
    arguments: dict[str, Any]
    dies_at: float | None
    commits: int = 0


class Soak:
    """One soak test on a new graph."""

    def __init__(
        self, uri: str, plan: SoakPlan, tell: Callable[[str], None] = lambda _: None
    ) -> None:
        self._plan = plan
        self._tell = tell
        self._chance = random.Random(plan.seed)
        self._report = SoakReport()
        self._processes: list[_RoleProcess] = []
        self._acknowledged = dict.fromkeys(BRANCHES, 0)
        self._last_commit_time = time.monotonic()
        self._graph: Graph = init(uri, soak_catalog(), settings=soak_settings(plan.minimum_age))
        self._graph.apply(first_edits())
        for branch in BRANCHES[1:]:
            self._graph.branches.create(branch)

    def run(self) -> SoakReport:
        began = time.monotonic()
        try:
            if self._plan.samples:
                self._run_until(min(self._plan.warm_commits, self._plan.commits // 4))
                self._measure()
            self._run_until(self._plan.commits)
            if self._plan.samples:
                self._measure()
        finally:
            self._end_all()
        self._check_all()
        self._report.seconds = time.monotonic() - began
        return self._report

    def _run_until(self, commits: int) -> None:
        """Run all roles until `commits` commits were acknowledged in total."""
        told = measured = 0.0
        self._last_commit_time = time.monotonic()
        while self._report.commits < commits:
            self._start_missing_roles()
            time.sleep(_POLL_SECONDS)
            now = time.monotonic()
            for process in list(self._processes):
                self._look_after(process, now)
            assert now - self._last_commit_time < _STUCK_SECONDS, (
                f"no commit for {_STUCK_SECONDS} s"
            )
            if now - measured > 2:
                measured = now
                self._report.disk.append((self._report.commits, *_disk(self._graph.uri)))
            if now - told > 30:
                told = now
                self._tell(f"{self._report.commits} commits, {dict(self._report.done)}")
        self._end_all()

    def _start_missing_roles(self) -> None:
        plan = self._plan
        busy = {p.arguments["branch"] for p in self._processes if p.role == "writer"}
        common = {"uri": self._graph.uri, "minimum_age": plan.minimum_age}
        while len(busy) < plan.writers:
            branch = self._chance.choice([b for b in BRANCHES if b not in busy])
            busy.add(branch)
            commits = self._chance.randint(1, plan.commits_per_writer)
            self._start("writer", {**common, "branch": branch, "commits": commits})
        for role in ("merger", "keeper", "reader"):
            if not any(process.role == role for process in self._processes):
                seed = self._chance.randrange(2**32)
                self._start(role, {**common, "pause": plan.pause_seconds, "seed": seed})

    def _start(self, role: str, arguments: dict[str, Any]) -> None:
        dies = role != "reader" and self._chance.random() < self._plan.kill_share
        life = self._chance.uniform(0, self._plan.life_seconds)
        dies_at = time.monotonic() + 1 + life if dies else None
        child = crash.start(f"{_ROLES}:{role}", arguments)
        self._processes.append(_RoleProcess(role, child, arguments, dies_at))

    def _look_after(self, process: _RoleProcess, now: float) -> None:
        for report in process.child.reports_so_far():
            self._take_report(process, report)
        if process.dies_at is not None and now > process.dies_at:
            self._report.kills += 1
            self._end(process)
        elif process.child.process.poll() is not None:
            self._end(process)

    def _take_report(self, process: _RoleProcess, report: Any) -> None:
        if process.role != "writer":
            self._report.done[report if isinstance(report, str) else report[0]] += 1
            # What a query needs of a head that has not moved is in memory, so it costs nothing.
            if process.role == "reader" and not isinstance(report, str) and report[2]:
                self._report.head_reads.append((self._report.commits, report[1]))
            return
        branch = process.arguments["branch"]
        if isinstance(report, int):
            # What the last writer of this branch acknowledged, or one more: a killed writer may
            # have committed without a report.
            assert report - self._acknowledged[branch] in (0, 1), (branch, report)
            self._acknowledged[branch] = report
            return
        number, spent = report
        process.commits += 1
        self._report.reads_back.append((number, process.commits, spent))
        assert number == self._acknowledged[branch] + 1, (branch, number)
        self._acknowledged[branch] = number
        self._report.commits += 1
        self._last_commit_time = time.monotonic()

    def _end(self, process: _RoleProcess) -> None:
        """Kill the process. If it ended by itself, its exit code must be 0."""
        process.child.kill()
        code, reports, errors = process.child.finish()
        self._processes.remove(process)
        for report in reports:
            self._take_report(process, report)
        assert code in (0, -9), f"{process.role} {process.arguments}: {errors}"

    def _end_all(self) -> None:
        for process in list(self._processes):
            self._end(process)

    def _measure(self) -> None:
        arguments = {
            "uri": self._graph.uri,
            "samples": self._plan.samples,
            "minimum_age": self._plan.minimum_age,
        }
        child = crash.start(f"{_ROLES}:measure", arguments, new_interpreter=True)
        code, reports, errors = child.finish(timeout=600)
        assert code == 0, errors
        medians, count = reports
        self._report.commits += count - self._acknowledged["main"]
        self._acknowledged["main"] = count
        self._report.measurements.append(
            {name: (old, young) for name, (old, young) in medians.items()}
        )

    def _check_all(self) -> None:
        """Every acknowledged commit is in the graph, and every kept commit is correct."""
        graph = open_graph(self._graph.uri, settings=soak_settings(self._plan.minimum_age))
        graph.refresh()
        model = SoakModel()
        for branch in BRANCHES:
            count = counts_of(graph, branch).get(branch, 0)
            assert count - self._acknowledged[branch] in (0, 1), (branch, count)
            for commit in graph.commits.list(branch, limit=KEPT_COMMITS, first_parent=True):
                commit_id = commit.graph_commit_id
                model.check_snapshot(graph, graph.snapshot(branch, at=commit_id))
        for source, target in permutations(BRANCHES, 2):
            graph.preview_merge(source, target)  # a merge is possible after any cleanup
        verified = graph.verify()
        assert verified.ok, verified.findings
        assert_at_rest(graph)
        self._report.disk.append((self._report.commits, *_disk(graph.uri)))


def _disk(uri: str) -> tuple[int, int]:
    total = history = 0
    for folder, _, names in os.walk(uri):
        for name in names:
            path = Path(folder) / name
            try:
                size = path.stat().st_size
            except FileNotFoundError:
                continue
            total += size
            history += size if path.parent.name == HISTORY else 0
    return total, history

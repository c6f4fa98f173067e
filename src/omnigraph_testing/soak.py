"""A graph under everything at once: writers on five branches, merges, readers, upkeep, cleanup.

Processes are killed at random; whatever they acknowledged must be there, and every snapshot that
anybody reads must be right. `python -m bench soak` runs the long one.
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
from omnigraph_testing.soak_model import BRANCHES, SoakModel, counts_of, soak_catalog
from omnigraph_testing.soak_roles import KEPT_COMMITS, soak_settings

_ROLES = "omnigraph_testing.soak_roles"
_LOOK_SECONDS = 0.05
_WEDGED_SECONDS = 180.0

Medians = dict[str, tuple[float, float]]
"""Operation -> milliseconds on this graph and on a new one with the same rows."""


@dataclass(frozen=True, slots=True)
class SoakPlan:
    """How long and how rough."""

    commits: int
    seed: int = 1
    commits_per_writer: int = 1500
    writers: int = 2
    kill_share: float = 0.7
    """Of the processes; the others end by themselves or at the end."""
    life_seconds: float = 40.0
    """How long a process that is killed lives at most."""
    pause_seconds: float = 0.5
    """Between two merges, and between two steps of upkeep."""
    minimum_age: float = 20.0
    """Of what cleanup removes; slower reads are told that their snapshot is gone."""
    warm_commits: int = 500
    """Before the first pulse is taken."""
    samples: int = 100
    """Of each operation in a pulse; 0: no pulse is taken."""


@dataclass(slots=True)
class SoakReport:
    """What happened."""

    commits: int = 0
    kills: int = 0
    seconds: float = 0.0
    done: Counter[str] = field(default_factory=Counter)
    pulses: list[Medians] = field(default_factory=list)
    disk: list[tuple[int, int, int]] = field(default_factory=list)
    """(commits, bytes of the graph, those of them that are commit log)."""


@dataclass(slots=True)
class _Player:
    """A running process and when it is to be killed."""

    role: str
    child: Child
    arguments: dict[str, Any]
    dies_at: float | None


class Soak:
    """One run on a graph of its own."""

    def __init__(
        self, uri: str, plan: SoakPlan, tell: Callable[[str], None] = lambda _: None
    ) -> None:
        self._plan = plan
        self._tell = tell
        self._chance = random.Random(plan.seed)
        self._report = SoakReport()
        self._players: list[_Player] = []
        self._acknowledged = dict.fromkeys(BRANCHES, 0)
        self._last_sign = time.monotonic()
        self._graph: Graph = init(uri, soak_catalog(), settings=soak_settings(plan.minimum_age))
        for branch in BRANCHES[1:]:
            self._graph.branches.create(branch)

    def run(self) -> SoakReport:
        began = time.monotonic()
        try:
            if self._plan.samples:
                self._play_until(min(self._plan.warm_commits, self._plan.commits // 4))
                self._pulse()
            self._play_until(self._plan.commits)
            if self._plan.samples:
                self._pulse()
        finally:
            self._end_all()
        self._judge()
        self._report.seconds = time.monotonic() - began
        return self._report

    def _play_until(self, commits: int) -> None:
        """Everything at once, until so many commits were acknowledged in total."""
        told = looked = 0.0
        self._last_sign = time.monotonic()
        while self._report.commits < commits:
            self._fill_the_stage()
            time.sleep(_LOOK_SECONDS)
            now = time.monotonic()
            for player in list(self._players):
                self._attend(player, now)
            assert now - self._last_sign < _WEDGED_SECONDS, f"no commit for {_WEDGED_SECONDS} s"
            if now - looked > 2:
                looked = now
                self._report.disk.append((self._report.commits, *_disk(self._graph.uri)))
            if now - told > 30:
                told = now
                self._tell(f"{self._report.commits} commits, {dict(self._report.done)}")
        self._end_all()

    def _fill_the_stage(self) -> None:
        plan = self._plan
        busy = {p.arguments["branch"] for p in self._players if p.role == "writer"}
        common = {"uri": self._graph.uri, "minimum_age": plan.minimum_age}
        while len(busy) < plan.writers:
            branch = self._chance.choice([b for b in BRANCHES if b not in busy])
            busy.add(branch)
            commits = self._chance.randint(1, plan.commits_per_writer)
            self._start("writer", {**common, "branch": branch, "commits": commits})
        for role in ("merger", "keeper", "reader"):
            if not any(player.role == role for player in self._players):
                seed = self._chance.randrange(2**32)
                self._start(role, {**common, "pause": plan.pause_seconds, "seed": seed})

    def _start(self, role: str, arguments: dict[str, Any]) -> None:
        dies = role != "reader" and self._chance.random() < self._plan.kill_share
        life = self._chance.uniform(0, self._plan.life_seconds)
        dies_at = time.monotonic() + 1 + life if dies else None
        child = crash.start(f"{_ROLES}:{role}", arguments)
        self._players.append(_Player(role, child, arguments, dies_at))

    def _attend(self, player: _Player, now: float) -> None:
        for said in player.child.reports_so_far():
            self._hear(player, said)
        if player.dies_at is not None and now > player.dies_at:
            self._report.kills += 1
            self._end(player)
        elif player.child.process.poll() is not None:
            self._end(player)

    def _hear(self, player: _Player, said: Any) -> None:
        if player.role != "writer":
            self._report.done[said if isinstance(said, str) else said[0]] += 1
            return
        branch = player.arguments["branch"]
        if isinstance(said, int):
            # What the last writer of this branch acknowledged, or one more that nobody heard of.
            assert said - self._acknowledged[branch] in (0, 1), (branch, said)
            self._acknowledged[branch] = said
            return
        number, _ = said
        assert number == self._acknowledged[branch] + 1, (branch, number)
        self._acknowledged[branch] = number
        self._report.commits += 1
        self._last_sign = time.monotonic()

    def _end(self, player: _Player) -> None:
        """Kill it unless it ended by itself; an end of its own must be a good one."""
        player.child.kill()
        code, reports, errors = player.child.finish()
        self._players.remove(player)
        for said in reports:
            self._hear(player, said)
        assert code in (0, -9), f"{player.role} {player.arguments}: {errors}"

    def _end_all(self) -> None:
        for player in list(self._players):
            self._end(player)

    def _pulse(self) -> None:
        arguments = {
            "uri": self._graph.uri,
            "samples": self._plan.samples,
            "minimum_age": self._plan.minimum_age,
        }
        child = crash.start(f"{_ROLES}:pulse", arguments)
        code, reports, errors = child.finish(timeout=600)
        assert code == 0, errors
        medians, count = reports
        self._report.commits += count - self._acknowledged["main"]
        self._acknowledged["main"] = count
        self._report.pulses.append({name: (old, young) for name, (old, young) in medians.items()})

    def _judge(self) -> None:
        """At the end: all that was acknowledged is there, all that is kept is right."""
        graph = open_graph(self._graph.uri, settings=soak_settings(self._plan.minimum_age))
        graph.refresh()
        model = SoakModel()
        for branch in BRANCHES:
            count = counts_of(graph, branch).get(branch, 0)
            assert count - self._acknowledged[branch] in (0, 1), (branch, count)
            for commit in graph.commits.list(branch, limit=KEPT_COMMITS):
                commit_id = commit.graph_commit_id
                model.check_snapshot(graph, graph.snapshot(branch, at=commit_id))
        for source, target in permutations(BRANCHES, 2):
            graph.preview_merge(source, target)  # whatever cleanup took, these two can be merged
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

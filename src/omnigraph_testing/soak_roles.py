"""What the processes of a soak do; each may be killed at any moment."""

from __future__ import annotations

import itertools
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from omnigraph.errors import ExpectedVersionMismatch, SnapshotReclaimed
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph.settings.models import MaintenanceSettings, Settings, WriteSettings
from omnigraph_testing.crash import Report
from omnigraph_testing.soak_model import (
    BRANCHES,
    HOP,
    SoakModel,
    counter,
    counts_of,
    edits_of,
    soak_catalog,
)

KEPT_COMMITS = 20
_TRIES = 100


def soak_settings(minimum_age: float) -> Settings:
    """As users have it, but for a lease and an age that do not make the kills wait."""
    return Settings(
        write=WriteSettings(lease_seconds=3.0),
        maintenance=MaintenanceSettings(minimum_age_seconds=minimum_age),
    )


def writer(report: Report, uri: str, branch: str, commits: int, minimum_age: float) -> None:
    """The next operations of one branch, each acknowledged by its number and milliseconds."""
    graph = open_graph(uri, actor=f"writer of {branch}", settings=soak_settings(minimum_age))
    done = counts_of(graph, branch).get(branch, 0)
    report(done)
    for number in range(done + 1, done + 1 + commits):
        began = time.perf_counter()
        _insist(graph.apply, edits_of(branch, number), branch)
        report([number, (time.perf_counter() - began) * 1000])


def merger(report: Report, uri: str, seed: int, pause: float, minimum_age: float) -> None:
    """Merge any branch into any other, for ever; nothing merged may get lost."""
    graph = open_graph(uri, actor="merger", settings=soak_settings(minimum_age))
    chance = random.Random(seed)
    while True:
        source, target = chance.sample(BRANCHES, 2)
        before = counts_of(graph, source)
        result = _insist(graph.merge, source, target)
        after = counts_of(graph, target)
        assert all(after[b] >= count for b, count in before.items()), (source, target)
        report([result.outcome, source, target])
        time.sleep(chance.uniform(0, 2 * pause))


def keeper(report: Report, uri: str, seed: int, pause: float, minimum_age: float) -> None:
    """Optimize and clean up, for ever."""
    graph = open_graph(uri, actor="keeper", settings=soak_settings(minimum_age))
    chance = random.Random(seed)
    for turn in itertools.count():
        if turn % 3 == 2:
            report(["cleanup", graph.cleanup(keep=KEPT_COMMITS, confirm=True).bytes])
        else:
            report(["optimize", len(graph.optimize(chance.choice(BRANCHES)))])
        time.sleep(chance.uniform(0, 2 * pause))


def reader(report: Report, uri: str, seed: int, pause: float, minimum_age: float) -> None:
    """Read heads, older commits and snapshots pinned a while ago, for ever, and judge them."""
    graph = open_graph(uri, read_only=True, settings=soak_settings(minimum_age))
    chance = random.Random(seed)
    model = SoakModel()
    pinned = graph.snapshot()
    while True:
        branch, origin = chance.choice(BRANCHES), chance.choice(BRANCHES)
        choice = chance.random()
        try:
            if choice < 0.4:
                rows = graph.query(HOP, params={"n": counter(origin)}, branch=branch).to_pylist()
                model.check_hop(origin, rows)
            elif choice < 0.6:
                model.check_snapshot(graph, graph.snapshot(branch))
            elif choice < 0.8:
                listed = graph.commits.list(branch, limit=2 * KEPT_COMMITS)
                commit = chance.choice(listed).graph_commit_id
                model.check_snapshot(graph, graph.snapshot(branch, at=commit))
            else:
                pinned, old = graph.snapshot(branch), pinned
                model.check_snapshot(graph, old)
        except SnapshotReclaimed:
            report("reclaimed")
        else:
            report("right")
        time.sleep(chance.uniform(0, pause / 5))


def pulse(report: Report, uri: str, samples: int, minimum_age: float) -> None:
    """Medians of this graph and of one made anew with the same rows, turn by turn.

    The second tells what the machine gives at this moment.
    """
    old = open_graph(uri, actor="pulse", settings=soak_settings(minimum_age))
    with tempfile.TemporaryDirectory(prefix="omnigraph-soak-") as folder:
        young = init(str(Path(folder) / "young"), soak_catalog(), settings=soak_settings(60))
        for type_name in ("Person", "Knows"):
            rows = _as_given(old.read(type_name).to_pylist())
            young.apply({type_name: {"insert": rows}})
        number = itertools.count(counts_of(old, "main").get("main", 0) + 1)
        measured: dict[str, Callable[[Graph], object]] = {
            "commit": _both(lambda graph, n: graph.apply(edits_of("main", n)), number),
            "point read": lambda graph: graph.read("Person", ids=[counter("main")]),
            "1-hop": lambda graph: graph.query(HOP, params={"n": counter("main")}),
        }
        report({n: _medians(action, old, young, samples) for n, action in measured.items()})
    old.engine.reconciler.settle()
    report(counts_of(old, "main")["main"])


def _as_given(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = {"src": "from", "dst": "to"}
    return [{names.get(key, key): value for key, value in row.items()} for row in rows]


def _both(
    apply: Callable[[Graph, int], object], numbers: Iterator[int]
) -> Callable[[Graph], object]:
    """The same operation on one graph, then on the other."""
    doubled = (number for number in numbers for _ in range(2))
    return lambda graph: apply(graph, next(doubled))


def _medians(
    action: Callable[[Graph], object], old: Graph, young: Graph, samples: int
) -> tuple[float, float]:
    taken: tuple[list[float], list[float]] = ([], [])
    for turn in range(samples + samples // 4):
        for graph, times in zip((old, young), taken, strict=True):
            began = time.perf_counter()
            action(graph)
            if turn >= samples // 4:  # warm by then
                times.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken[0]), statistics.median(taken[1])


_Answer = TypeVar("_Answer")


def _insist(action: Callable[..., _Answer], *arguments: object) -> _Answer:
    """As users are told to: what lost a race, or was overtaken by cleanup, is repeated."""
    for _ in range(_TRIES):
        try:
            return action(*arguments)
        except (ExpectedVersionMismatch, SnapshotReclaimed):
            continue
    return action(*arguments)

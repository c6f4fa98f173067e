"""Many small commits on five branches with readers, upkeep, cleanup and kills: nothing is lost."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from omnigraph.errors import SnapshotReclaimed
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.settings.maintenance import MaintenanceSettings
from omnigraph.settings.models import Settings, WriteSettings
from omnigraph.testing import crash
from omnigraph.testing.crash import Child
from omnigraph.testing.invariants import assert_at_rest, content

BRANCHES = ("main", "a", "b", "c", "d")


def soak(graph: Graph, rounds: int, seconds: float) -> None:
    chance = random.Random(1)
    for branch in BRANCHES[1:]:
        graph.branches.create(branch)
    acknowledged: dict[str, set[str]] = {branch: set() for branch in BRANCHES}
    keeper = open_graph(
        graph.uri,
        settings=Settings(
            WriteSettings(2.0), maintenance=MaintenanceSettings(minimum_age_seconds=60)
        ),
    )
    for number in range(rounds):
        branch = chance.choice(BRANCHES)
        writer = start_writer(graph.uri, branch, number)
        deadline = time.monotonic() + seconds * chance.uniform(0.5, 1.0)
        while time.monotonic() < deadline:
            read_something(keeper, chance)
        acknowledged[branch] |= kill(writer)
        keeper.optimize(branch)
        for path in Path(graph.uri).rglob("*"):  # an hour passes
            os.utime(path, (path.stat().st_mtime - 3600,) * 2)
        keeper.cleanup(keep=5, confirm=True)
    keeper.refresh()
    for branch in BRANCHES:
        assert acknowledged[branch] <= set(content(keeper, branch)["Note"])
    assert keeper.verify().ok
    assert_at_rest(keeper)


def start_writer(uri: str, branch: str, number: int) -> Child:
    arguments = {"uri": uri, "branch": branch, "name": f"{branch}{number}"}
    child = crash.start("omnigraph.testing.workloads:tended_writer", arguments)
    child.wait_for_report()
    return child


def kill(writer: Child) -> set[str]:
    writer.kill()
    return {report for report in writer.finish()[1] if isinstance(report, str)}


def read_something(graph: Graph, chance: random.Random) -> None:
    branch = chance.choice(BRANCHES)
    commit = chance.choice(graph.commits.list(branch, limit=10)).graph_commit_id
    try:
        snapshot = graph.snapshot(branch, at=commit)
        rows = graph.read("Note", branch, at=commit)
    except SnapshotReclaimed:
        return
    pin = next(pin for key, pin in snapshot.tables.items() if key.type_name == "Note")
    assert rows.num_rows == pin.row_count


@pytest.mark.crash
def test_a_short_soak(graph: Graph) -> None:
    soak(graph, rounds=3, seconds=1.0)


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.timeout(3600)
def test_a_long_soak(graph: Graph) -> None:
    soak(graph, rounds=120, seconds=15.0)

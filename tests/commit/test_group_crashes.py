"""Kill -9 at every point of a group: each of its writes is whole or absent, none is lost."""

from __future__ import annotations

import random
import signal
import time
from typing import Any

import pytest

from omnigraph import failpoints
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph_testing import workloads
from omnigraph_testing.crash import start
from omnigraph_testing.invariants import assert_at_rest, assert_history_readable, content

pytestmark = pytest.mark.crash

W = "omnigraph_testing.workloads:"
WRITERS = 4
NOTHING = {"commit.before_arm"}
ROLLED_BACK = {
    "commit.after_arm",
    "group.after_arm",
    "group.after_stage",
    "group.after_advance_first",
    "group.after_member",
    "group.before_publish",
    "publish.after_history",
    "publish.after_stage",
}
PUBLISHED = {"publish.after_swap", "group.after_publish", "group.after_disarm"}
# The last visit of a point that each member passes, so that as much as possible has happened.
LATE = {
    "group.after_stage": WRITERS,
    "group.after_advance_first": 2 * WRITERS,
    "group.after_member": WRITERS,
}


def crash(point: str, hit: int, uri: str, branch: str = "main") -> list[Any]:
    """Kill a process with a group at a point; the writes that it acknowledged."""
    arguments = {"uri": uri, "name": "g", "writers": WRITERS, "branch": branch}
    child = start(W + "group_of_writers", arguments, failpoints=f"{point}=kill@{hit}")
    code, reports, stderr = child.finish()
    assert code == -signal.SIGKILL, f"{point} was not reached (exit {code}): {stderr}"
    return [report for report in reports if report != "open"]


def committed_markers(graph: Graph, acknowledged: list[Any], branch: str = "main") -> list[str]:
    """The writes that are there, in order. None is torn, and all acknowledged ones are there."""
    found = content(graph, branch)
    commits = graph.commits.list(branch, limit=None)[::-1]
    markers = [c.message for c in commits if c.message and c.message.startswith("g-")]
    by_id = {c.graph_commit_id: c.message for c in commits}
    assert set(markers) == {m for m in found["Note"] if m.startswith("g-")}
    assert set(markers) == {m for m in found["Person"] if m.startswith("g-")}
    for marker, commit_id in acknowledged:
        assert by_id[commit_id] == marker, "an acknowledged write is lost"
    return markers


def test_every_point_of_a_group_has_an_expectation() -> None:
    points = {*failpoints.GROUP_POINTS, *failpoints.PUBLISH_POINTS}
    assert points | {"commit.before_arm", "commit.after_arm"} == NOTHING | ROLLED_BACK | PUBLISHED


@pytest.mark.parametrize(
    ("point", "hit"),
    [
        *((point, 1) for point in sorted(NOTHING | ROLLED_BACK | PUBLISHED)),
        *LATE.items(),
    ],
)
def test_a_killed_group_is_whole_or_absent(graph: Graph, uri: str, point: str, hit: int) -> None:
    acknowledged = crash(point, hit, uri)
    assert acknowledged == [] or point == "group.after_disarm"

    reopened = open_graph(uri, settings=workloads.settings())

    markers = committed_markers(reopened, acknowledged)
    expected = [f"g-{n}" for n in range(WRITERS)] if point in PUBLISHED else []
    assert markers == expected
    audits = reopened.recoveries()
    assert len(audits) == (point in ROLLED_BACK)
    if audits:
        head = reopened.commits.list()[0]
        assert (audits[0].recovery_kind, audits[0].operation_kind) == ("rolled_back", "group")
        assert (audits[0].recovery_for_actor, head.actor_id) == ("g", "omnigraph:recovery")
        assert audits[0].graph_commit_id == head.graph_commit_id
    assert_at_rest(reopened)
    assert_history_readable(reopened)
    assert reopened.apply({"Note": {"insert": [{"text": "next"}]}}).commit is not None
    assert_at_rest(reopened)


def test_a_killed_group_that_was_cut_in_time_is_whole(graph: Graph, uri: str) -> None:
    """The third write takes longer than the group may: the fourth is left for the next group."""
    arguments = {"uri": uri, "name": "g", "writers": WRITERS, "lease": workloads.LEASE}
    slow = f"group.after_member=sleep:{workloads.LEASE + 0.5}@3"
    points = f"{slow},group.after_disarm=kill"
    child = start(W + "group_of_writers", arguments, failpoints=points)
    code, reports, stderr = child.finish()
    assert (code, reports) == (-signal.SIGKILL, ["open"]), stderr
    reopened = open_graph(uri, settings=workloads.settings())
    made = committed_markers(reopened, [])
    # A busy machine may cut it earlier. No write of it was acknowledged, and none is torn.
    assert made == [f"g-{n}" for n in range(len(made))]
    assert 1 <= len(made) <= 3
    assert len({c.graph_manifest_version for c in reopened.commits.list(limit=len(made))}) == 1
    assert reopened.recoveries() == []
    assert_at_rest(reopened)


@pytest.mark.parametrize("point", ["commit.after_fork_branch", "commit.after_fork_publish"])
def test_killed_while_its_tables_are_forked(graph: Graph, uri: str, point: str) -> None:
    graph.branches.create("review")
    assert crash(point, 1, uri, "review") == []
    reopened = open_graph(uri, settings=workloads.settings())
    assert committed_markers(reopened, [], "review") == []
    assert reopened.recoveries() == []
    assert_at_rest(reopened)


def test_an_open_handle_recovers_a_killed_group(graph: Graph, uri: str) -> None:
    crash("group.before_publish", 1, uri)
    graph.apply({"Note": {"insert": [{"id": "later", "text": "later"}]}})
    assert set(content(graph)["Note"]) == {"n0", "later"}
    assert [a.operation_kind for a in graph.recoveries()] == ["group"]
    assert_at_rest(graph)


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(p, marks=[] if "restore_first" in p or "publish" in p else pytest.mark.slow)
        for p in failpoints.RECOVERY_POINTS
    ],
)
def test_recovery_of_a_group_interrupted_anywhere_converges(
    graph: Graph, uri: str, point: str
) -> None:
    before = content(graph)
    crash("group.before_publish", 1, uri)
    code, _, stderr = start(W + "only_open", {"uri": uri}, failpoints=f"{point}=kill").finish()
    assert code == -signal.SIGKILL, stderr
    reopened = open_graph(uri, settings=workloads.settings())
    assert content(reopened) == before
    assert len(reopened.recoveries()) == 1
    assert_at_rest(reopened)


@pytest.mark.parametrize("point", failpoints.ROLLBACK_POINTS)
def test_killed_while_a_group_undoes_itself(graph: Graph, uri: str, point: str) -> None:
    before = content(graph)
    workloads.leave_orphan_head(graph)
    crash(point, 1, uri)
    reopened = open_graph(uri, settings=workloads.settings())
    assert content(reopened) == before
    assert_at_rest(reopened)


def test_a_stopped_group_is_fenced(graph: Graph, uri: str) -> None:
    """SIGSTOP past the lease: the group is rolled back, and its writes are made again, alone."""
    arguments = {"uri": uri, "name": "g", "writers": WRITERS, "lease": workloads.LEASE}
    child = start(W + "group_of_writers", arguments, failpoints="group.before_publish=sleep:0.5")
    assert child.wait_for_report() == "open"
    deadline = time.monotonic() + 20
    while not any(s.intent.kind == "group" for s in graph.engine.board.others()):
        assert time.monotonic() < deadline, "the group never armed"
        time.sleep(0.005)
    child.stop()
    graph.apply({"Note": {"insert": [{"id": "meanwhile", "text": "x"}]}})
    assert [a.recovery_kind for a in graph.recoveries()] == ["rolled_back"]
    child.resume()
    code, reports, stderr = child.finish()
    assert code == 0, stderr
    assert len(reports) == WRITERS
    assert len(committed_markers(graph, reports)) == WRITERS
    assert_at_rest(graph)


def processes_of_threads(uri: str, processes: int, threads: int, commits: int, kills: int) -> None:
    graph = workloads.create_small_graph(uri)
    chance = random.Random(processes)
    children = [
        start(
            W + "threads_of_writers",
            {"uri": uri, "name": f"p{n}", "threads": threads, "commits": commits},
        )
        for n in range(processes)
    ]
    for child in children:
        assert child.wait_for_report() == "open"
    for child in children[:kills]:
        time.sleep(chance.uniform(0.1, 0.4))
        child.kill()
    ends = [child.finish() for child in children]
    assert all(code in (0, -signal.SIGKILL) for code, *_ in ends), [e for _, _, e in ends]
    acknowledged = [report for _, reports, _ in ends for report in reports]
    graph.refresh()
    commits_made = [c for c in graph.commits.list(limit=None) if (c.message or "").startswith("p")]
    by_id = {c.graph_commit_id: c.message for c in commits_made}
    rows = {i for i in content(graph)["Note"] if i.startswith("p")}
    assert rows == set(by_id.values())
    assert len(by_id) == len(rows), "a write was made twice"
    for marker, commit_id in acknowledged:
        assert by_id[commit_id] == marker
    assert len(acknowledged) >= (processes - kills) * threads * commits
    published = {c.graph_manifest_version for c in commits_made}
    assert len(published) < len(commits_made), "no group was formed"
    assert_at_rest(graph)


def test_processes_with_threads(uri: str) -> None:
    processes_of_threads(uri, processes=3, threads=6, commits=6, kills=1)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_many_processes_with_many_threads(uri: str) -> None:
    processes_of_threads(uri, processes=6, threads=16, commits=20, kills=3)


def random_kills(uri: str, rounds: int) -> None:
    graph = workloads.create_small_graph(uri)
    chance = random.Random(rounds)
    acknowledged: list[Any] = []
    for number in range(rounds):
        arguments = {"uri": uri, "name": f"g-{number}", "threads": 8, "commits": 10_000}
        child = start(W + "threads_of_writers", arguments)
        assert child.wait_for_report() == "open"
        time.sleep(chance.uniform(0.02, 0.4))
        child.kill()
        code, reports, stderr = child.finish()
        assert code == -signal.SIGKILL, stderr
        acknowledged += reports
        graph.refresh()
        commits = graph.commits.list(limit=None)
        by_id = {c.graph_commit_id: c.message for c in commits}
        for marker, commit_id in acknowledged:
            assert by_id[commit_id] == marker
        assert_at_rest(graph)
    rows = [m for m in content(graph)["Note"] if m.startswith("g-")]
    assert sorted(rows) == sorted(m for m in by_id.values() if m and m.startswith("g-"))


def test_random_kills_of_groups(uri: str) -> None:
    random_kills(uri, 4)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_random_kills_of_groups(uri: str) -> None:
    random_kills(uri, 60)

"""Kill -9 in the middle of a merge; merges racing with writers of both branches."""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest

from omnigraph import failpoints
from omnigraph.errors import CommitRejected
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.merge import operation
from omnigraph_testing import workloads
from omnigraph_testing.crash import start
from omnigraph_testing.invariants import assert_at_rest, content

pytestmark = pytest.mark.crash

POINTS = (
    *failpoints.MERGE_POINTS,
    *(p for p in failpoints.COMMIT_POINTS if "fork" not in p),
    "publish.after_stage",
    "publish.after_swap",
)
LANDED = {
    "commit.after_advance",
    "commit.before_publish",
    "publish.after_stage",
    "publish.after_swap",
    "commit.after_publish",
    "commit.after_disarm",
    "merge.before_branch_delete",
}


CASES = [
    *((point, "merge_review") for point in POINTS),
    *((point, "merge_review_beside_others") for point in POINTS),
    *((point, "merge_review_by_tasks") for point in ("merge.after_rows", "commit.after_advance")),
]


@pytest.mark.parametrize(("point", "workload"), CASES)
def test_a_merge_is_all_or_nothing(graph: Graph, point: str, workload: str) -> None:
    graph.branches.create("review")
    graph.apply(workloads.THREE_TABLES, "review")
    graph.apply({"Note": {"insert": [{"id": "own", "text": "of main"}]}})
    before = content(graph, "main")
    source = graph.branches.show("review").head_commit_id
    victim = f"omnigraph_testing.workloads:{workload}"
    code, _, stderr = start(victim, {"uri": graph.uri}, failpoints=f"{point}=kill").finish()
    assert code == -signal.SIGKILL, f"{point} was not reached (exit {code}): {stderr}"

    reopened = open_graph(graph.uri, settings=workloads.settings())

    head = reopened.commits.list()[0]
    if point in LANDED:
        assert head.merged_parent_commit_id == source
        assert content(reopened, "main")["Note"].keys() == {"n0", "n1", "own"}
        assert reopened.merge("review").outcome == "already_up_to_date"
    else:
        assert content(reopened, "main") == before
        assert reopened.merge("review").outcome == "merged"
    merged = content(reopened, "main")
    assert set(merged["Person"]) == {"ada", "bob", "cy"}
    assert not merged.get("Knows")
    assert_at_rest(reopened)


def test_merges_among_writers_of_both_branches_lose_nothing(graph: Graph) -> None:
    graph.branches.create("review")
    written: dict[str, list[str]] = {"main": [], "review": []}
    stop = threading.Event()

    def write(branch: str) -> None:
        handle = open_graph(graph.uri, settings=workloads.settings())
        number = 0
        while not stop.is_set():
            name = f"{branch}-{number}"
            handle.apply({"Note": {"insert": [{"id": name, "text": name}]}}, branch)
            written[branch].append(name)
            number += 1

    threads = [threading.Thread(target=write, args=(b,)) for b in written]
    for thread in threads:
        thread.start()
    outcomes: list[Any] = []
    handle = open_graph(graph.uri, settings=workloads.settings())
    for _ in range(6):
        try:
            outcomes.append(handle.merge("review"))
        except CommitRejected as error:
            assert error.retryable  # noqa: PT017 - the outcome of a lost race
    stop.set()
    for thread in threads:
        thread.join()
    assert outcomes
    graph.merge("review")
    assert {n for names in written.values() for n in names} <= set(content(graph, "main")["Note"])
    parents = [c.parent_commit_id for c in graph.commits.list(limit=None, first_parent=True)]
    assert len(parents) == len(set(parents))
    assert_at_rest(graph)


def test_writers_do_not_wait_for_a_large_merge(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them moves the target: the merge is computed again, and both are there."""
    monkeypatch.setattr(operation, "LARGE", 2)
    graph.branches.create("review")
    graph.apply({"Note": {"insert": [{"id": f"r{i}", "text": "r"} for i in range(3)]}}, "review")
    graph.apply({"Note": {"insert": [{"id": "m0", "text": "m"}]}})
    row = {"Note": {"insert": [{"id": "meanwhile", "text": "m"}]}}
    computed = write_during(monkeypatch, graph, row)
    merge = graph.merge("review")
    assert merge.outcome == "merged"
    assert len(computed) == 2
    notes = set(content(graph, "main")["Note"])
    assert {"r0", "r1", "r2", "m0", "meanwhile"} <= notes
    monkeypatch.undo()
    assert_at_rest(graph)
    assert graph.merge("review").outcome == "already_up_to_date"


@pytest.mark.parametrize(
    "point", ["merge.after_rows", "commit.after_arm", "commit.after_advance", "publish.after_swap"]
)
def test_a_large_revert_is_all_or_nothing(graph: Graph, point: str) -> None:
    before = content(graph, "main")
    commit = graph.apply(workloads.THREE_TABLES).commit
    after = content(graph, "main")
    victim = "omnigraph_testing.workloads:revert_beside_others"
    given = {"uri": graph.uri, "commit_id": commit.graph_commit_id}
    code, _, stderr = start(victim, given, failpoints=f"{point}=kill").finish()
    assert code == -signal.SIGKILL, f"{point} was not reached (exit {code}): {stderr}"
    reopened = open_graph(graph.uri, settings=workloads.settings())
    assert content(reopened, "main") == (before if point in LANDED else after)
    reopened.revert(commit.graph_commit_id)
    assert content(reopened, "main") == before
    assert_at_rest(reopened)


def test_writers_do_not_wait_for_a_large_revert(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation, "LARGE", 0)
    commit = graph.apply({"Note": {"insert": [{"id": "r0", "text": "r"}]}}).commit
    write_during(monkeypatch, graph, {"Note": {"insert": [{"id": "meanwhile", "text": "m"}]}})
    graph.revert(commit.graph_commit_id)
    notes = set(content(graph, "main")["Note"])
    assert "meanwhile" in notes
    assert "r0" not in notes
    monkeypatch.undo()
    assert_at_rest(graph)


def write_during(monkeypatch: pytest.MonkeyPatch, graph: Graph, rows: Any) -> list[str]:
    """Another writer commits while the first computation ends; every computation is noted."""
    real, computed = failpoints.hit, []

    def write_meanwhile(name: str) -> None:
        real(name)
        if name != "merge.after_rows":
            return
        computed.append(name)
        if len(computed) == 1:
            writer = threading.Thread(target=graph.apply, args=(rows,), daemon=True)
            writer.start()
            writer.join(60)
            assert not writer.is_alive()

    monkeypatch.setattr(failpoints, "hit", write_meanwhile)
    return computed

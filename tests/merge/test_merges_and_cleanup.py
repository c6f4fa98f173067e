"""Cleanup among merges: what two live branches are merged against stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import FeedGap, SnapshotReclaimed
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.manifest.lineage import Lineage
from omnigraph.settings.models import HistorySettings, MaintenanceSettings, Settings
from omnigraph_testing.invariants import assert_at_rest
from omnigraph_testing.workloads import create_small_graph

AT_ONCE = Settings(
    maintenance=MaintenanceSettings(minimum_age_seconds=0), history=HistorySettings(inline_ids=0)
)


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    create_small_graph(str(tmp_path / "graph.omni"))
    return open_graph(str(tmp_path / "graph.omni"), settings=AT_ONCE)


def cleaned(graph: Graph) -> Graph:
    """A process that has nothing in memory, after everything that may go is gone."""
    graph.optimize()
    graph.cleanup(keep=1, confirm=True)
    return open_graph(graph.uri, settings=AT_ONCE)


def ages(graph: Graph, branch: str = "main") -> dict[str, Any]:
    return {r["id"]: r["age"] for r in graph.read("Person", branch).to_pylist()}


def set_age(graph: Graph, branch: str, name: str, age: int) -> None:
    graph.apply({"Person": {"upsert": [{"name": name, "age": age}]}}, branch)


def test_the_base_of_two_live_branches_survives(graph: Graph) -> None:
    graph.branches.create("r")
    fork = graph.branches.show("main").head_commit_id
    for age in range(10, 13):
        set_age(graph, "main", "ada", age)
        set_age(graph, "r", "bob", age)
    graph = cleaned(graph)
    assert {r["id"]: r["age"] for r in graph.read("Person", at=fork).to_pylist()} == {
        "ada": 1,
        "bob": 2,
    }
    assert graph.merge("r").outcome == "merged"
    assert ages(graph) == {"ada": 12, "bob": 12}
    assert_at_rest(graph)


def test_the_base_of_a_deleted_branch_goes(graph: Graph) -> None:
    graph.branches.create("r")
    fork = graph.branches.show("main").head_commit_id
    set_age(graph, "main", "ada", 10)
    set_age(graph, "r", "bob", 10)
    graph.branches.delete("r")
    graph = cleaned(graph)
    with pytest.raises(SnapshotReclaimed):
        graph.read("Person", at=fork)
    assert_at_rest(graph)


def test_merged_deleted_cleaned_and_merged_again(graph: Graph) -> None:
    graph.branches.create("b")
    graph.branches.create("a")
    set_age(graph, "a", "ada", 5)
    set_age(graph, "b", "bob", 3)
    set_age(graph, "main", "cy", 4)
    graph.merge("a", into="b")
    graph.merge("a", into="main", delete_branch=True)
    graph = cleaned(graph)
    set_age(graph, "main", "ada", 1)  # a change since a's head, which is the base
    graph = cleaned(graph)
    assert graph.merge("b", into="main").outcome == "merged"
    assert ages(graph) == {"ada": 1, "bob": 3, "cy": 4}
    graph = cleaned(graph)
    set_age(graph, "b", "bob", 30)
    set_age(graph, "main", "ada", 11)
    graph = cleaned(graph)
    assert graph.merge("b", into="main").outcome == "merged"
    assert graph.merge("main", into="b").outcome == "fast_forward"
    assert ages(graph, "b") == ages(graph) == {"ada": 11, "bob": 30, "cy": 4}
    assert_at_rest(graph)


def test_the_ancestors_of_a_criss_cross_survive(graph: Graph) -> None:
    graph.branches.create("r")
    set_age(graph, "main", "ada", 10)
    set_age(graph, "r", "bob", 20)
    graph.branches.create("main0")
    graph.branches.create("r0", "r")
    graph.merge("r0", into="main", delete_branch=True)
    graph.merge("main0", into="r", delete_branch=True)
    set_age(graph, "main", "ada", 11)
    set_age(graph, "r", "bob", 1)
    graph = cleaned(graph)
    assert graph.merge("r", into="main").outcome == "merged"
    assert ages(graph) == {"ada": 11, "bob": 1}


def test_a_feed_that_waited_too_long_says_so(graph: Graph) -> None:
    cursor = graph.changes().cursor
    in_baseline = graph.baseline(limit=1)
    assert in_baseline.has_more
    for age in range(3):
        set_age(graph, "main", "ada", age)
    late = graph.changes().cursor
    graph = cleaned(graph)
    for old in (cursor, in_baseline.cursor):
        with pytest.raises(FeedGap, match="baseline") as caught:
            graph.changes(cursor=old)
        assert caught.value.to_dict()["code"] == "feed_gap"
    with pytest.raises(FeedGap):
        graph.changes(start="beginning")
    set_age(graph, "main", "bob", 9)
    set_age(graph, "main", "bob", 10)
    (first, second) = graph.changes(cursor=late).blocks
    assert [c.after["age"] for c in (*first.changes, *second.changes) if c.after] == [9, 10]
    assert graph.baseline().blocks[0].baseline


def test_a_revert_of_a_cleaned_commit_is_refused_and_changes_nothing(graph: Graph) -> None:
    set_age(graph, "main", "ada", 7)
    old = graph.branches.show("main").head_commit_id
    for age in (8, 9):
        set_age(graph, "main", "ada", age)
    graph = cleaned(graph)
    head = graph.branches.show("main").head_commit_id
    with pytest.raises(SnapshotReclaimed):
        graph.revert(old)
    assert graph.branches.show("main").head_commit_id == head
    assert_at_rest(graph)


def test_a_branch_made_again_is_never_served_from_what_was_kept_of_the_first(graph: Graph) -> None:
    query = "query q() { match { $p: Person } return { $p.name, $p.age } order { $p.name } }"
    other = open_graph(graph.uri, settings=AT_ONCE)  # its caches see no delete happen
    fork = graph.branches.show("main").head_commit_id
    cursors: list[str] = []
    for age in (50, 60, 70):
        graph.branches.create("r")
        set_age(graph, "r", "ada", age)
        for handle in (graph, other):
            assert ages(handle, "r")["ada"] == age
            assert handle.query(query, branch="r").to_pylist()[0]["p.age"] == age
            (change,) = handle.diff("main", "r")
            assert change.after is not None
            assert change.after["age"] == age
            assert handle.commits.list("r")[0].changes
            for cursor in cursors:
                with pytest.raises(FeedGap):
                    handle.changes("r", cursor)
            page = handle.changes("r", start=f"after:{fork}")
            assert page.blocks[-1].changes == (change,)
            assert len(handle.merge("r", preview=True).changes) == 1
        cursors.append(page.cursor)
        graph.branches.delete("r")
        if age == 60:
            graph.cleanup(keep=1, confirm=True)


def test_merges_all_day_keep_no_more_than_a_few_versions(graph: Graph) -> None:
    """Every merge has another parent; only where living branches meet does its state stay."""
    graph.branches.create("r")
    counts = []
    for age in range(24):
        set_age(graph, "r", "bob", age)
        set_age(graph, "main", "ada", age)
        graph.merge("r")
        graph.merge("main", into="r")
        if age % 8 == 7:
            graph = cleaned(graph)
            files = [f for kind in ("nodes", "edges") for f in Path(graph.uri, kind).rglob("*.*")]
            counts.append(len(files))
    assert counts[-1] == counts[1], counts
    assert_at_rest(graph)


def test_a_meeting_point_stays_on_every_way_to_it(graph: Graph) -> None:
    """Compaction moved its tables between the log of its branch and the page of its merge."""
    graph.branches.create("r")
    set_age(graph, "r", "bob", 7)
    for age in range(3):
        set_age(graph, "main", "ada", age)
    met = graph.branches.show("main").head_commit_id
    graph.merge("main", into="r")
    graph.optimize("main")
    for age in range(3):
        set_age(graph, "main", "ada", 10 + age)
        set_age(graph, "r", "cy", age)
    graph = cleaned(graph)
    reader = graph.engine.reader
    states = [reader.branch(name)[1] for name in ("main", "r")]
    found = [Lineage(reader, [state]).snapshot(met) for state in states]
    assert found[0].tables != found[1].tables, "otherwise this tests nothing"
    for snapshot in found:
        for pin in snapshot.tables.values():
            assert graph.engine.store.open(pin.at).count_rows() == pin.row_count

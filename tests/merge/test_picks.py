"""Revert, cherry-pick, rename."""

from __future__ import annotations

import pytest

from omnigraph.errors import AlreadyExists, InvalidName, MergeConflicts, NotFound
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph


def ages(graph: Graph, branch: str = "main") -> dict:
    return {r["id"]: r["age"] for r in graph.read("Person", branch).to_pylist()}


def set_age(graph: Graph, branch: str, name: str, age: int) -> str:
    receipt = graph.apply({"Person": {"upsert": [{"name": name, "age": age}]}}, branch)
    assert receipt.commit is not None
    return receipt.commit.graph_commit_id


def test_revert_undoes_one_commit_and_respects_what_came_later(graph: Graph) -> None:
    commit = set_age(graph, "main", "ada", 5)
    set_age(graph, "main", "bob", 6)
    receipt = graph.revert(commit)
    assert receipt.commit.operation == "revert"
    assert receipt.commit.message == f"revert {commit}"
    assert ages(graph) == {"ada": 1, "bob": 6}
    assert graph.revert(commit).commit is None  # nothing of it is left
    again = graph.revert(receipt.commit.graph_commit_id)
    assert ages(graph) == {"ada": 5, "bob": 6}
    set_age(graph, "main", "ada", 9)
    with pytest.raises(MergeConflicts) as caught:
        graph.revert(again.commit.graph_commit_id)
    (conflict,) = caught.value.conflicts
    assert (conflict.kind, conflict.base, conflict.ours, conflict.theirs) == (
        "DivergentUpdate",
        5,
        9,
        1,
    )


def test_revert_of_a_merge_and_of_a_node_that_is_in_use(graph: Graph) -> None:
    graph.branches.create("r")
    added = set_age(graph, "r", "zed", 5)
    merge = graph.merge("r").commit
    graph.apply({"Knows": {"insert": [{"id": "k9", "from": "ada", "to": "zed"}]}})
    with pytest.raises(MergeConflicts) as caught:
        graph.revert(added)
    assert [(c.kind, c.entity_id) for c in caught.value.conflicts] == [("OrphanEdge", "k9")]
    graph.apply({"Knows": {"delete": ["k9"]}})
    graph.revert(merge.graph_commit_id, message="not yet")
    assert set(ages(graph)) == {"ada", "bob"}
    assert graph.commits.list()[0].message == "not yet"


def test_cherry_pick_takes_one_step_only(graph: Graph) -> None:
    graph.branches.create("r")
    set_age(graph, "r", "ada", 5)
    commit = set_age(graph, "r", "bob", 6)
    receipt = graph.cherry_pick(commit, onto="main")
    assert receipt.commit.operation == "cherry_pick"
    assert receipt.commit.merged_parent_commit_id is None
    assert ages(graph) == {"ada": 1, "bob": 6}
    assert graph.cherry_pick(commit).commit is None
    assert graph.merge("r").outcome == "merged"  # the same change on both sides is no conflict
    assert ages(graph) == {"ada": 5, "bob": 6}
    with pytest.raises(NotFound, match="nothing"):
        graph.cherry_pick("nothing")


def test_rename_keeps_everything_but_the_name(graph: Graph) -> None:
    graph.branches.create("old")
    set_age(graph, "old", "ada", 5)
    other = open_graph(graph.uri)
    cursor = graph.changes("old").cursor
    assert ages(other, "old")["ada"] == 5
    assert graph.branches.rename("old", "new/name").name == "new/name"
    for handle in (graph, other):
        assert [b.name for b in handle.branches.list()] == ["main", "new/name"]
        assert ages(handle, "new/name")["ada"] == 5
        with pytest.raises(NotFound, match="old"):
            handle.read("Person", "old")
    set_age(other, "new/name", "ada", 6)
    assert graph.changes("new/name", cursor).blocks[0].changes[0].after["age"] == 6
    graph.branches.create("old")
    assert ages(graph, "old")["ada"] == 1
    with pytest.raises(AlreadyExists):
        graph.branches.rename("old", "new/name")
    with pytest.raises(InvalidName):
        graph.branches.rename("main", "other")
    with pytest.raises(InvalidName):
        graph.branches.rename("old", "../x")
    graph.merge("new/name", delete_branch=True)
    assert ages(graph)["ada"] == 6

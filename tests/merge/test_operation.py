"""Merges of branches from outside: outcomes, previews, deleted branches, large merges."""

from __future__ import annotations

from typing import Any

import pytest
from merge_steps import ages, set_age

from omnigraph import failpoints
from omnigraph.catalog.model import Catalog, NodeType, Property
from omnigraph.errors import InvalidArgument, MergeConflicts, NotFound
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.merge import operation, output
from omnigraph.values.scalars import ScalarKind, ScalarType
from omnigraph_testing.invariants import assert_at_rest

pytestmark = pytest.mark.usefixtures("both_engines")


def test_merging_back_and_forth_stays_quiet(graph: Graph) -> None:
    graph.branches.create("r")
    for round_number in range(4):
        set_age(graph, "r", "ada", 10 + round_number)
        set_age(graph, "main", "bob", 20 + round_number)
        assert graph.merge("r", into="main").outcome == "merged"
        assert graph.merge("main", into="r").outcome == "fast_forward"
        assert graph.diff("main", "r") == []
    assert graph.merge("main", into="r").outcome == "already_up_to_date"


def test_the_ancestry_of_a_merge_outlives_its_branch(graph: Graph) -> None:
    """A merged into main and into b, then deleted: the best ancestor of main and b is A's head."""
    graph.branches.create("b")
    graph.branches.create("a")
    head = set_age(graph, "a", "ada", 5)
    graph.merge("a", into="b")
    graph.merge("a", into="main", delete_branch=True)
    graph.branches.create("a")  # another one
    set_age(graph, "a", "ada", 99)
    set_age(graph, "main", "ada", 1)  # back to what it was before a: a change of main, no conflict
    set_age(graph, "b", "bob", 3)
    reopened = open_graph(graph.uri)
    reopened.merge("b", into="main")
    assert ages(reopened) == {"ada": 1, "bob": 3}
    assert reopened.commits.show(head).graph_branch == "a"
    assert [c.id for c in reopened.commits.changes(head)] == ["ada"]
    assert ages(reopened, "a")["ada"] == 99


def test_branch_of_a_branch_into_the_grandparent(graph: Graph) -> None:
    graph.branches.create("a")
    set_age(graph, "a", "ada", 5)
    graph.branches.create("a/b", "a")
    set_age(graph, "a/b", "bob", 6)
    assert graph.merge("a/b", into="main").outcome == "fast_forward"
    assert ages(graph) == {"ada": 5, "bob": 6}
    set_age(graph, "a", "ada", 7)
    assert graph.merge("a").outcome == "merged"
    assert ages(graph) == {"ada": 7, "bob": 6}


def test_a_type_added_on_the_source_comes_with_its_rows(graph: Graph) -> None:
    graph.branches.create("wider")
    catalog = graph.snapshot().catalog
    city = NodeType("City", (Property("name", ScalarType(ScalarKind.STRING)),))
    graph.schema.apply(Catalog(nodes=(*catalog.nodes, city), edges=catalog.edges), branch="wider")
    graph.apply({"City": {"insert": [{"id": "c", "name": "Bern"}]}}, "wider")
    set_age(graph, "main", "ada", 3)
    result = graph.merge("wider")
    assert result.outcome == "merged"
    assert graph.read("City").to_pylist() == [{"id": "c", "name": "Bern"}]
    assert [(c.op, c.id) for c in graph.commits.changes(result.commit.graph_commit_id)] == [
        ("insert", "c")
    ]
    assert_at_rest(graph)


def test_delete_branch_spares_what_came_meanwhile(graph: Graph, monkeypatch: Any) -> None:
    graph.branches.create("r")
    set_age(graph, "r", "ada", 5)

    def late(name: str) -> None:
        if name == "merge.before_branch_delete":
            monkeypatch.setattr(failpoints, "hit", lambda _: None)
            set_age(graph, "r", "ada", 6)

    monkeypatch.setattr(failpoints, "hit", late)
    merged = graph.merge("r", delete_branch=True)
    assert merged.branch_deleted is False
    assert "'r'" in merged.branch_delete_error
    assert ages(graph)["ada"] == 5
    assert ages(graph, "r")["ada"] == 6


def test_merges_that_make_no_sense(graph: Graph) -> None:
    with pytest.raises(InvalidArgument, match="itself"):
        graph.merge("main")
    with pytest.raises(NotFound, match="nowhere"):
        graph.merge("nowhere")
    graph.branches.create("r")
    with pytest.raises(InvalidArgument, match="fail, ours, theirs"):
        graph.merge("r", strategy="mine")


def test_large_merges_go_through_scratch_files(graph: Graph, monkeypatch: Any) -> None:
    monkeypatch.setattr(output, "ROWS_IN_MEMORY", 100)
    people = [{"name": f"p{i:04}", "age": i} for i in range(3000)]
    graph.apply({"Person": {"insert": people}})
    graph.branches.create("r")
    moved = [{**p, "age": p["age"] + 1} for p in people[::2]]
    new = [{"name": f"q{i:04}", "age": i} for i in range(500)]
    gone = [p["name"] for p in people[1:400:2]]
    graph.apply({"Person": {"upsert": moved, "insert": new, "delete": gone}}, "r")
    set_age(graph, "main", "ada", 77)
    wanted = {**ages(graph, "r"), "ada": 77}
    result = graph.merge("r")
    assert ages(graph) == wanted
    changed = result.commit.changes[0]
    assert (changed.inserted, changed.updated, changed.deleted) == (500, 1500, 200)
    assert len(graph.commits.changes(result.commit.graph_commit_id)) == 2200
    assert_at_rest(graph)


def test_of_very_many_changes_and_conflicts_a_preview_has_the_first(
    graph: Graph, monkeypatch: Any
) -> None:
    monkeypatch.setattr(operation, "MOST_CHANGES", 3)
    monkeypatch.setattr(output, "MOST_CONFLICTS", 2)
    graph.branches.create("r")
    people = [{"name": f"p{i}", "age": 1} for i in range(5)]
    graph.apply({"Person": {"insert": people}, "Note": {"delete": ["n0"]}}, "r")
    preview = graph.preview_merge("r")
    assert [c.id for c in preview.changes] == ["n0", "p0", "p1"]
    assert preview.more_changes
    graph.apply({"Person": {"insert": [{**p, "age": 2} for p in people]}})
    preview = graph.preview_merge("r")
    assert ([c.entity_id for c in preview], preview.conflict_count) == (["p0", "p1"], 5)
    assert not preview.more_changes
    with pytest.raises(MergeConflicts, match="in conflict") as caught:
        graph.merge("r")
    assert (len(caught.value.conflicts), caught.value.total) == (2, 5)

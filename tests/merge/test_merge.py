"""Merges from outside: conflicts, strategies, resolutions, histories of every shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omnigraph.catalog.model import Catalog, NodeType, Property
from omnigraph.errors import InvalidArgument, MergeConflicts, NotFound, PreconditionFailed
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph.merge import operation, output
from omnigraph.values.scalars import ScalarKind, ScalarType
from omnigraph_testing.invariants import assert_at_rest

pytestmark = pytest.mark.usefixtures("both_engines")

UNIQUE = """
node Person {
  name: String @key
  mail: String?
  @unique(mail)
}
node City { name: String @key }
edge LivesIn: Person -> City @card(0..1)
"""


def ages(graph: Graph, branch: str = "main") -> dict[str, Any]:
    return {r["id"]: r["age"] for r in graph.read("Person", branch).to_pylist()}


def set_age(graph: Graph, branch: str, name: str, age: int | None) -> str:
    receipt = graph.apply({"Person": {"upsert": [{"name": name, "age": age}]}}, branch)
    assert receipt.commit is not None
    return receipt.commit.graph_commit_id


def conflicts_of(graph: Graph, source: str, into: str = "main") -> list[tuple]:
    before = graph.branches.show(into).head_commit_id
    with pytest.raises(MergeConflicts) as caught:
        graph.merge(source, into=into)
    assert graph.branches.show(into).head_commit_id == before
    envelope = caught.value.to_dict()
    assert envelope["code"] == "conflict"
    assert len(envelope["merge_conflicts"]) == len(caught.value.conflicts)
    preview = graph.merge(source, into=into, preview=True)
    assert preview == caught.value.conflicts
    return [(c.kind, c.entity_id, c.property, c.base, c.ours, c.theirs) for c in preview]


@pytest.mark.parametrize("deleter", ["main", "r"])
def test_a_value_for_an_entity_that_one_side_deleted(graph: Graph, deleter: str) -> None:
    """The object says some properties; the others come from the side that has the entity."""
    graph.branches.create("r")
    graph.apply({"Person": {"delete": ["ada"]}}, deleter)
    set_age(graph, "r" if deleter == "main" else "main", "ada", 6)
    entry = {"type_name": "Person", "entity_id": "ada"}
    graph.branches.create("kept")
    graph.merge("r", into="kept", resolutions=[{**entry, "value": {}}])
    assert ages(graph, "kept")["ada"] == 6
    graph.merge("r", resolutions=[{**entry, "value": {"age": 42}}])
    assert ages(graph)["ada"] == 42
    assert graph.verify().ok


def test_a_conflict_names_all_three_values_and_every_way_out_works(graph: Graph) -> None:
    graph.branches.create("r")
    set_age(graph, "r", "ada", 6)
    set_age(graph, "main", "ada", 7)
    assert conflicts_of(graph, "r") == [("DivergentUpdate", "ada", "age", 1, 7, 6)]
    entry = {"type_name": "Person", "entity_id": "ada", "property": "age"}
    for number, (given, wanted) in enumerate(
        [
            ({"strategy": "ours"}, 7),
            ({"strategy": "theirs"}, 6),
            ({"resolutions": [{**entry, "take": "base"}]}, 1),
            ({"resolutions": [{**entry, "take": "theirs"}]}, 6),
            ({"resolutions": [{**entry, "value": None}]}, None),
            ({"resolutions": [{**entry, "value": 42}]}, 42),
        ]
    ):
        graph.branches.create(f"try{number}")
        result = graph.merge("r", into=f"try{number}", **given)
        assert result.outcome == "merged"
        assert ages(graph, f"try{number}")["ada"] == wanted


def test_resolutions_from_files_and_their_mistakes(graph: Graph, tmp_path: Path) -> None:
    graph.branches.create("r")
    set_age(graph, "r", "ada", 6)
    set_age(graph, "main", "ada", 7)
    good = "- {type_name: Person, entity_id: ada, property: age, take: theirs}\n"
    unmatched = good + "- {type_name: Person, entity_id: nobody, take: ours}\n"
    for text, match in [
        (unmatched, "nobody"),
        ("- {type_name: Person}", "entity_id"),
        ("- {type_name: Person, entity_id: ada}", "take or value"),
        ("- {type_name: Person, entity_id: ada, take: mine}", "mine"),
        ("- {type_name: Person, entity_id: ada, took: ours}", "took"),
        ("- {type_name: Person, entity_id: ada, property: age, value: old}", "age"),
        ("- {a: 1, a: 2}", "cannot be read"),
        ("7", "list"),
        ("- 7", "object"),
    ]:
        (tmp_path / "r.yaml").write_text(text)
        with pytest.raises(InvalidArgument, match=match):
            graph.merge("r", resolutions=tmp_path / "r.yaml")
    with pytest.raises(InvalidArgument, match="No such file"):
        graph.merge("r", resolutions=str(tmp_path / "none.yaml"))
    (tmp_path / "r.json").write_text(
        '[{"type_name": "Person", "entity_id": "ada", "property": "age", "take": "theirs"}]'
    )
    graph.merge("r", resolutions=str(tmp_path / "r.json"))
    assert ages(graph)["ada"] == 6


def test_delete_against_update_in_both_directions(graph: Graph) -> None:
    graph.branches.create("gone")
    graph.branches.create("changed")
    graph.apply({"Knows": {"delete": ["k0"]}, "Person": {"delete": ["bob"]}}, "gone")
    set_age(graph, "changed", "bob", 9)
    bob = {"id": "bob", "name": "bob", "age": 2}
    found = conflicts_of(graph, "gone", "changed")
    assert found == [("DeleteVsUpdate", "bob", None, bob, {**bob, "age": 9}, None)]
    found = conflicts_of(graph, "changed", "gone")
    assert found == [("DeleteVsUpdate", "bob", None, bob, None, {**bob, "age": 9})]
    graph.merge("changed", into="gone", strategy="theirs")
    assert ages(graph, "gone")["bob"] == 9
    assert graph.read("Knows", "gone").num_rows == 0  # what the cascade removed stays removed
    graph.merge("gone", into="changed", strategy="theirs")


def test_an_edge_to_a_node_the_other_side_deleted(graph: Graph) -> None:
    graph.branches.create("gone")
    graph.branches.create("linked")
    graph.apply({"Knows": {"delete": ["k0"]}, "Person": {"delete": ["bob"]}}, "gone")
    edge = {"id": "e1", "from": "ada", "to": "bob", "since": None}
    graph.apply({"Knows": {"insert": [edge]}}, "linked")
    assert conflicts_of(graph, "gone", "linked") == [("OrphanEdge", "e1", None, None, edge, None)]
    assert conflicts_of(graph, "linked", "gone") == [("OrphanEdge", "e1", None, None, None, edge)]
    for source, target, strategy, people, edges in [
        ("gone", "linked", "ours", {"ada", "bob"}, {"e1"}),
        ("gone", "linked", "theirs", {"ada"}, set()),
        ("linked", "gone", "ours", {"ada"}, set()),
        ("linked", "gone", "theirs", {"ada", "bob"}, {"e1"}),
    ]:
        graph.branches.create("t", target)
        graph.merge(source, into="t", strategy=strategy)
        assert set(ages(graph, "t")) == people
        assert set(graph.read("Knows", "t").column("id").to_pylist()) == edges
        graph.branches.delete("t")
    entry = {"type_name": "Knows", "entity_id": "e1", "take": "delete"}
    graph.merge("linked", into="gone", resolutions=[entry])
    assert graph.read("Knows", "gone").num_rows == 0


def test_rules_that_only_the_union_breaks(tmp_path: Path) -> None:
    graph = init(tmp_path / "g", UNIQUE)
    graph.apply(
        {
            "Person": {"insert": [{"name": "ada"}, {"name": "bob"}]},
            "City": {"insert": [{"name": "Bern"}, {"name": "Rom"}]},
        }
    )
    for name in ("a", "b"):
        graph.branches.create(name)
    graph.apply({"Person": {"upsert": [{"name": "ada", "mail": "x"}]}}, "a")
    graph.apply({"LivesIn": {"insert": [{"id": "l1", "from": "ada", "to": "Bern"}]}}, "a")
    graph.apply({"Person": {"upsert": [{"name": "bob", "mail": "x"}]}}, "b")
    graph.apply({"LivesIn": {"insert": [{"id": "l2", "from": "ada", "to": "Rom"}]}}, "b")
    found = conflicts_of(graph, "b", "a")
    assert [(kind, i, p) for kind, i, p, *_ in found] == [
        ("UniqueViolation", "bob", "mail"),
        ("CardinalityViolation", "ada", None),
    ]
    assert found[1][4:] == (["l1"], ["l2"])
    for strategy, mails, homes in [
        ("ours", {"ada": "x", "bob": None}, ["l1"]),
        ("theirs", {"ada": None, "bob": "x"}, ["l2"]),
    ]:
        graph.branches.create("t", "a")
        graph.merge("b", into="t", strategy=strategy)
        people = graph.read("Person", "t").to_pylist()
        assert {p["id"]: p["mail"] for p in people} == mails
        assert graph.read("LivesIn", "t").column("id").to_pylist() == homes
        graph.branches.delete("t")


def test_merging_back_and_forth_stays_quiet(graph: Graph) -> None:
    graph.branches.create("r")
    for round_number in range(4):
        set_age(graph, "r", "ada", 10 + round_number)
        set_age(graph, "main", "bob", 20 + round_number)
        assert graph.merge("r", into="main").outcome == "merged"
        assert graph.merge("main", into="r").outcome == "fast_forward"
        assert graph.diff("main", "r") == []
    assert graph.merge("main", into="r").outcome == "already_up_to_date"


def test_criss_cross_uses_the_merged_ancestors(graph: Graph) -> None:
    graph.branches.create("r")
    set_age(graph, "main", "ada", 10)
    set_age(graph, "r", "bob", 20)
    graph.branches.create("main0")
    graph.branches.create("r0", "r")
    graph.merge("r0", into="main")
    graph.merge("main0", into="r")
    set_age(graph, "main", "ada", 11)
    set_age(graph, "r", "bob", 1)  # against either ancestor alone this would look undone
    assert graph.merge("r", into="main").outcome == "merged"
    assert ages(graph) == {"ada": 11, "bob": 1}


def test_three_ancestors_that_saw_one_line_at_different_times(graph: Graph) -> None:
    """Each has one more commit of the line: together they know its newest, and nothing disputes."""
    graph.branches.create("line")
    sides = ("s", "t")
    for name in (*sides, "x", "y", "z"):
        graph.branches.create(name)
    for number, name in enumerate(("x", "y", "z")):
        set_age(graph, "line", "ada", 10 + number)
        graph.merge("line", into=name)
        set_age(graph, name, f"only on {name}", 1)
    for side in sides:
        for name in ("x", "y", "z"):
            graph.merge(name, into=side)
    set_age(graph, "s", "ada", 99)
    set_age(graph, "t", "bob", 98)
    assert graph.merge("s", into="t").outcome == "merged"
    merged = ages(graph, "t")
    assert (merged["ada"], merged["bob"]) == (99, 98)


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
    graph.extend_schema(Catalog(nodes=(*catalog.nodes, city), edges=catalog.edges), "wider")
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
    from omnigraph import failpoints

    def late(name: str) -> None:
        if name == "merge.before_branch_delete":
            monkeypatch.setattr(failpoints, "hit", lambda _: None)
            set_age(graph, "r", "ada", 6)

    monkeypatch.setattr(failpoints, "hit", late)
    with pytest.raises(PreconditionFailed, match="'r'"):
        graph.merge("r", delete_branch=True)
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

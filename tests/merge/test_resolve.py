"""Rules that two branches break together are conflicts, and decisions settle them."""

from __future__ import annotations

from pathlib import Path

import pytest
from merge_steps import ages, conflicts_of

from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init

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

"""Another key over stored entities: ids, and the ends and ids of edges follow."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph import Graph, SchemaRefused, ValidationFailed, init

SCHEMA = """
node Person { name: String  mail: String?  age: I32? }
node City { title: String @key }
edge Knows: Person -> Person { weight: I32?  @key(from, to) }
edge LivesIn: Person -> City
"""
KEYED = SCHEMA.replace("name: String ", "name: String @key ")
HOP = 'match { $a: Person { name: "p1" }  $a knows $b } return { $b.name as name }'


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = init(tmp_path / "g.omni", SCHEMA)
    ids = [f"id{n}" for n in range(4)]
    people = {"id": ids, "name": [f"p{n}" for n in range(4)], "mail": ["a", "b", "c", None]}
    graph.load(pa.table(people), type="Person", engine="local")
    graph.load(pa.table({"title": ["Ulm"]}), type="City", engine="local")
    graph.load(pa.table({"from": ["id1", "id2"], "to": ["id2", "id3"]}), type="Knows")
    graph.load(pa.table({"from": ["id1"], "to": ["Ulm"]}), type="LivesIn", engine="local")
    return graph


def test_a_key_over_stored_entities(graph: Graph) -> None:
    assert graph.query(HOP).to_pylist() == [{"name": "p2"}]
    assert graph.schema.apply(KEYED).applied
    assert sorted(graph.read("Person").column("id").to_pylist()) == ["p0", "p1", "p2", "p3"]
    knows = graph.read("Knows").sort_by("src").to_pylist()
    assert [(edge["src"], edge["dst"]) for edge in knows] == [("p1", "p2"), ("p2", "p3")]
    assert [edge["id"] for edge in knows] == ['["p1","p2"]', '["p2","p3"]']
    assert graph.read("LivesIn").to_pylist()[0]["dst"] == "Ulm"
    assert graph.query(HOP).to_pylist() == [{"name": "p2"}]
    assert graph.verify().findings == ()
    graph.mutate('insert Person { name: "p1", age: 7 }')
    assert graph.read("Person").num_rows == 4
    assert graph.read("Person", ids=["p1"]).to_pylist()[0]["age"] == 7
    assert graph.read("Person", at="HEAD~2").num_rows == 4
    assert "id1" in graph.read("Person", at="HEAD~2").column("id").to_pylist()


def test_another_key_and_no_key(graph: Graph) -> None:
    graph.schema.apply(KEYED)
    other = SCHEMA.replace("mail: String?", "mail: String @key")
    graph.schema.apply(other, backfill={"Person.mail": "name"})
    assert sorted(graph.read("Person").column("id").to_pylist()) == ["a", "b", "c", "p3"]
    assert graph.query(HOP).to_pylist() == [{"name": "p2"}]
    graph.schema.apply(SCHEMA)
    assert sorted(graph.read("Person").column("id").to_pylist()) == ["a", "b", "c", "p3"]
    assert graph.verify().findings == ()


def test_values_that_are_no_key(graph: Graph) -> None:
    head = graph.snapshot().graph_commit_id
    graph.mutate('insert Person { name: "p1" }')
    with pytest.raises(ValidationFailed, match=r"2 entities break @key\(name\)") as caught:
        graph.schema.apply(KEYED)
    assert caught.value.violations[0]["count"] == 2
    assert "id1" in caught.value.violations[0]["sample_ids"]
    assert graph.snapshot().graph_commit_id != head
    with pytest.raises(ValidationFailed, match=r"2 entities break @key\(mail\)"):
        graph.schema.apply(SCHEMA.replace("mail: String?", "mail: String @key"))


def test_another_branch_holds_the_type(graph: Graph) -> None:
    graph.branches.create("review")
    plan = graph.schema.plan(KEYED)
    assert not plan.supported
    assert plan.refusals[0].code == "OG-NL-101"
    with pytest.raises(SchemaRefused, match="review"):
        graph.schema.apply(KEYED)
    graph.branches.delete("review")
    assert graph.schema.apply(KEYED).applied


def test_which_branches_could_follow(graph: Graph) -> None:
    unique = SCHEMA.replace("age: I32?", "age: I32? @unique")
    graph.branches.create("bad")
    graph.branches.create("good")
    graph.mutate("update Person set { age: 1 } where true", branch="bad")
    plan = graph.schema.plan(unique, all_branches=True)
    assert plan.supported
    assert [(b.name, b.supported) for b in plan.branches] == [("bad", False), ("good", True)]
    assert "@unique(age)" in plan.branches[0].reasons[0]

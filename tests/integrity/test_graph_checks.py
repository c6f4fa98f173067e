"""Graph rules through `apply`: what is judged is the final image."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import KeyConflict, ValidationFailed
from omnigraph.graph.handle import Graph
from omnigraph.integrity.validate import validate_changes
from omnigraph.values.identifiers import edge_table, node_table
from omnigraph.writes.changeset import ChangeSet, EditRows, ReplaceRows
from omnigraph_testing.invariants import content

DAY = dt.date(2020, 1, 1)
SCHEMA = """
node Person {
  name: String @key
  email: String? @unique
  day: Date?
  score: F64?
  tags: [String]?
  @unique(day, score)
  @unique(tags)
}
node Team { name: String @key }
edge Knows: Person -> Person { since: I32? @unique(src, dst) }
edge MemberOf: Person -> Team @card(0..2)
edge Leads: Team -> Person @card(1..1)
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA)
    graph.apply(
        {
            "Person": {"insert": [{"name": n, "email": f"{n}@x"} for n in "abcd"]},
            "Team": {"insert": [{"name": "t"}]},
            "Knows": {"insert": [{"id": "ab", "from": "a", "to": "b"}]},
            "MemberOf": {"insert": [{"id": "at", "from": "a", "to": "t"}]},
            "Leads": {"insert": [{"id": "ta", "from": "t", "to": "a"}]},
        }
    )
    return graph


def refused(graph: Graph, edits: dict) -> list[tuple]:
    """(rule, type, entity) of every violation; the graph is as before."""
    before, head = content(graph), graph.snapshot().graph_commit_id
    with pytest.raises(ValidationFailed) as caught:
        graph.apply(edits)
    assert content(graph) == before
    assert graph.snapshot().graph_commit_id == head
    assert caught.value.total == len(caught.value.violations)
    return [(v["rule"], v["type"], v["entity_id"]) for v in caught.value.violations]


def insert(**tables: list) -> dict:
    return {name: {"insert": rows} for name, rows in tables.items()}


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        (insert(Person=[{"name": "e", "email": "a@x"}]), [("unique", "Person", "e")]),
        (
            insert(Person=[{"name": "e", "email": "e"}, {"name": "f", "email": "e"}]),
            [("unique", "Person", "f")],
        ),
        (
            insert(
                Person=[
                    {"name": "e", "day": DAY, "score": 0.0},
                    {"name": "f", "day": DAY, "score": -0.0},
                ]
            ),
            [("unique", "Person", "f")],
        ),
        (
            insert(Person=[{"name": "e", "tags": ["x"]}, {"name": "f", "tags": ["x"]}]),
            [("unique", "Person", "f")],
        ),
        (insert(Knows=[{"id": "p", "from": "a", "to": "b"}]), [("unique", "Knows", "p")]),
        (insert(Knows=[{"id": "p", "from": "a", "to": "zz"}]), [("endpoint", "Knows", "p")]),
        (insert(Knows=[{"id": "p", "from": "zz", "to": "a"}]), [("endpoint", "Knows", "p")]),
        (insert(Knows=[{"id": "p", "from": "t", "to": "a"}]), [("endpoint", "Knows", "p")]),
        (
            {
                "Person": {"delete": ["c"]},
                "Knows": {"insert": [{"id": "p", "from": "d", "to": "c"}]},
            },
            [("endpoint", "Knows", "p")],
        ),
        (
            insert(Team=[{"name": "u"}], Leads=[]),
            [("cardinality", "Leads", "u")],
        ),
        ({"Leads": {"delete": ["ta"]}}, [("cardinality", "Leads", "t")]),
        ({"Person": {"delete": ["a"]}}, [("cardinality", "Leads", "t")]),
        (
            insert(Leads=[{"id": "tb", "from": "t", "to": "b"}]),
            [("cardinality", "Leads", "t")],
        ),
        (
            {"Leads": {"upsert": [{"id": "ta", "from": "t", "to": "zz"}]}},
            [("endpoint", "Leads", "ta")],
        ),
        (
            insert(
                Knows=[{"id": "p", "from": "c", "to": "d"}, {"id": "p", "from": "d", "to": "c"}]
            ),
            [("duplicate_id", "Knows", "p")],
        ),
        ({"Person": {"insert": [{"name": "e", "id": "x"}]}}, [("key", "Person", "x")]),
    ],
)
def test_what_would_break_a_rule_is_refused(graph: Graph, edits: dict, expected: list) -> None:
    assert refused(graph, edits) == expected


def test_maximum_counts_what_is_stored_and_written(graph: Graph) -> None:
    graph.apply(insert(Team=[{"name": "u"}], Leads=[{"id": "ub", "from": "u", "to": "b"}]))
    graph.apply(insert(MemberOf=[{"id": "au", "from": "a", "to": "u"}]))
    more = insert(MemberOf=[{"id": "at2", "from": "a", "to": "t"}])
    assert refused(graph, more) == [("cardinality", "MemberOf", "a")]
    graph.apply({"MemberOf": {"insert": [{"id": "at2", "from": "a", "to": "t"}], "delete": ["at"]}})


def test_the_final_image_is_judged(graph: Graph) -> None:
    """Values may be swapped, an edge may come with its node, a minimum with its edge."""
    graph.apply(
        {
            "Knows": {"insert": [{"id": "p", "from": "e", "to": "a"}]},
            "Person": {
                "insert": [{"name": "e"}],
                "upsert": [{"name": "a", "email": "b@x"}, {"name": "b", "email": "a@x"}],
            },
            "Leads": {"delete": ["ta"], "insert": [{"id": "tb", "from": "t", "to": "b"}]},
        }
    )
    assert content(graph)["Person"]["a"]["email"] == "b@x"


def test_deleting_a_node_deletes_its_edges(graph: Graph) -> None:
    graph.apply(
        insert(Knows=[{"id": "ca", "from": "c", "to": "a"}, {"id": "cd", "from": "c", "to": "d"}])
    )
    receipt = graph.apply({"Person": {"delete": ["c", "nobody"]}})
    assert (receipt.affected_nodes, receipt.affected_edges) == (1, 2)
    assert sorted(content(graph)["Knows"]) == ["ab"]


def test_strict_inserts_of_existing_ids_name_them(graph: Graph) -> None:
    with pytest.raises(KeyConflict) as caught:
        graph.apply(insert(Person=[{"name": "a", "email": "a@x"}]))
    assert caught.value.ids == ["a"]


def test_many_rows_are_counted_and_the_first_are_named(graph: Graph) -> None:
    rows = [{"id": f"p{i}", "from": "a", "to": f"z{i}"} for i in range(3000)]
    with pytest.raises(ValidationFailed) as caught:
        graph.apply(insert(Knows=rows))
    assert (caught.value.total, caught.value.counts) == (3000, {"endpoint": 3000})
    assert len(caught.value.violations) == 20


def judge(graph: Graph, *effects: object) -> list[tuple]:
    try:
        validate_changes(graph.snapshot(), graph.engine.store, ChangeSet(effects))
    except ValidationFailed as error:
        return [(v["rule"], v["type"], v["entity_id"]) for v in error.violations]
    return []


def test_replacing_nodes_must_not_leave_edges_behind(graph: Graph) -> None:
    people = graph.read("Person")
    kept = people.filter(pa.compute.not_equal(people["id"], "b"))
    assert judge(graph, ReplaceRows(node_table("Person"), people)) == []
    assert judge(graph, ReplaceRows(node_table("Person"), kept)) == [("endpoint", "Knows", "ab")]
    no_edges = graph.read("Knows").slice(0, 0)
    both = (ReplaceRows(node_table("Person"), kept), ReplaceRows(edge_table("Knows"), no_edges))
    assert judge(graph, *both) == []


def test_replacing_edges_is_counted_for_every_source(graph: Graph) -> None:
    none = graph.read("Leads").slice(0, 0)
    assert judge(graph, ReplaceRows(edge_table("Leads"), none)) == [("cardinality", "Leads", "t")]


def test_a_change_set_without_its_cascades_is_told_so(graph: Graph) -> None:
    effect = EditRows(node_table("Person"), deletes=pa.array(["b"]))
    assert judge(graph, effect) == [("endpoint", "Knows", "ab")]

"""Two branches whose schemas went apart: what goes together is merged, the rest is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from omnigraph.catalog.identity import carry_identities, with_identities
from omnigraph.catalog.model import (
    Annotation,
    Catalog,
    EdgeType,
    GeneratedDefault,
    Key,
    NodeType,
    Property,
    Range,
    Unique,
)
from omnigraph.errors import MergeConflicts
from omnigraph.graph.handle import Graph
from omnigraph.merge.schemas import merge_catalogs
from omnigraph.schema.build import catalog_from_text
from omnigraph.values.scalars import EnumType, ScalarKind, ScalarType
from omnigraph_testing.generated_suite import is_uuid
from omnigraph_testing.invariants import assert_at_rest
from omnigraph_testing.workloads import small_catalog

pytestmark = pytest.mark.usefixtures("both_engines")

TEXT = ScalarType(ScalarKind.STRING)
I32, I64 = ScalarType(ScalarKind.I32), ScalarType(ScalarKind.I64)
NAME = Property("name", TEXT)
UUID, NOW = GeneratedDefault("uuid"), GeneratedDefault("now")


def city(*more: Property, constraints: tuple[Any, ...] = ()) -> NodeType:
    return NodeType("City", (NAME, *more), (Key(("name",)), *constraints))


def defaulted(name: str, value: Any, kind: Any = TEXT) -> Property:
    return Property(name, kind, annotations=(Annotation("default", (value,)),))


def add(graph: Graph, branch: str, *types: NodeType | EdgeType) -> None:
    known = small_catalog()
    nodes = tuple(t for t in types if isinstance(t, NodeType))
    edges = tuple(t for t in types if isinstance(t, EdgeType))
    catalog = Catalog((*known.nodes, *nodes), (*known.edges, *edges))
    graph.schema.apply(catalog, branch=branch)


def rows(graph: Graph, branch: str = "main", type_name: str = "City") -> dict[str, dict[str, Any]]:
    return {row.pop("id"): row for row in graph.read(type_name, branch).to_pylist()}


def two_sides(graph: Graph, ours: NodeType, theirs: NodeType) -> None:
    """Both branches add one type, each its own way."""
    graph.branches.create("r")
    add(graph, "main", ours)
    add(graph, "r", theirs)


def test_each_side_added_its_own_properties(graph: Graph) -> None:
    two_sides(
        graph,
        city(Property("mayor", TEXT, nullable=True), defaulted("country", "DE")),
        city(Property("people", I64, nullable=True), defaulted("zone", "UTC")),
    )
    graph.apply({"City": {"insert": [{"name": "Ulm", "mayor": "M", "country": "DE"}]}})
    there = [{"name": "Rom", "people": 3, "zone": "CET"}, {"name": "Ulm", "people": 1, "zone": "X"}]
    graph.apply({"City": {"insert": there}}, "r")
    preview = graph.preview_merge("r")
    assert {c.id for c in preview.changes} == {"Rom", "Ulm"}

    graph.merge("r")

    names = ["name", "mayor", "country", "people", "zone"]
    assert [p.name for p in graph.snapshot().catalog.node_types["City"].properties] == names
    # Nobody wrote this schema, and it has a text all the same.
    catalog, text = graph.snapshot().catalog, graph.schema.show().source
    assert carry_identities(catalog, catalog_from_text(text)) == catalog
    # Both added Ulm, and each knows what the other does not.
    assert rows(graph) == {
        "Rom": {"name": "Rom", "mayor": None, "country": "DE", "people": 3, "zone": "CET"},
        "Ulm": {"name": "Ulm", "mayor": "M", "country": "DE", "people": 1, "zone": "X"},
    }
    assert_at_rest(graph)
    graph.apply({"City": {"upsert": [{"name": "Ulm", "people": 2, "zone": "Y", "country": "FR"}]}})
    graph.merge("main", "r")
    assert rows(graph, "r") == rows(graph)
    graph.apply({"City": {"upsert": [{"name": "Oslo", "zone": "CET", "country": "NO"}]}}, "r")
    graph.merge("r")
    assert "Oslo" in rows(graph)
    assert graph.merge("r").outcome == "already_up_to_date"
    assert_at_rest(graph)


def test_rows_keep_their_values_and_the_older_schema_stays_readable(graph: Graph) -> None:
    two_sides(graph, city(), city(Property("people", I64, nullable=True)))
    graph.apply({"City": {"insert": [{"name": "Ulm"}]}})
    before = graph.commits.list()[0].graph_commit_id
    graph.apply({"City": {"insert": [{"name": "Rom", "people": 3}]}}, "r")
    assert [(c.op, c.id) for c in graph.preview_merge("r").changes] == [("insert", "Rom")]
    merge = graph.merge("r").commit
    assert rows(graph) == {
        "Rom": {"name": "Rom", "people": 3},
        "Ulm": {"name": "Ulm", "people": None},
    }
    assert graph.read("City", at=before).column_names == ["id", "name"]
    # What the commit changed is one city, however it had to write the table.
    assert [(c.op, c.id) for c in graph.commits.changes(merge.graph_commit_id)] == [
        ("insert", "Rom")
    ]
    assert [(c.op, c.id) for c in graph.diff(before, "main")] == [("insert", "Rom")]


def test_the_wider_type_and_the_looser_rule_win(graph: Graph) -> None:
    small = EnumType(("a", "b"))
    two_sides(
        graph,
        city(Property("people", I32, nullable=True), Property("size", small)),
        city(Property("people", I64), Property("size", EnumType(("b", "c")))),
    )
    graph.apply({"City": {"insert": [{"name": "Ulm", "people": 1, "size": "a"}]}})
    graph.apply({"City": {"insert": [{"name": "Rom", "people": 2**40, "size": "c"}]}}, "r")
    graph.merge("r")
    declared = {p.name: p for p in graph.snapshot().catalog.node_types["City"].properties}
    assert (declared["people"].type, declared["people"].nullable) == (I64, True)
    assert declared["size"].type == EnumType(("a", "b", "c"))
    assert rows(graph)["Rom"]["people"] == 2**40
    assert rows(graph)["Ulm"]["people"] == 1


def test_a_rule_of_theirs_holds_for_our_rows_too(graph: Graph) -> None:
    people = Property("people", I64, nullable=True)
    two_sides(
        graph,
        city(people),
        city(people, constraints=(Range("people", 1, None), Unique(("people",)))),
    )
    graph.apply({"City": {"insert": [{"name": "Ulm", "people": 0}, {"name": "Rom", "people": 7}]}})
    graph.apply({"City": {"insert": [{"name": "Oslo", "people": 7}]}}, "r")
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("r")
    kinds = {(c.kind, c.entity_id) for c in caught.value.conflicts}
    assert ("ValueConstraintViolation", "Ulm") in kinds
    assert any(kind == "UniqueViolation" for kind, _ in kinds)
    assert set(rows(graph)) == {"Ulm", "Rom"}
    assert_at_rest(graph)


def test_edges_of_a_type_with_new_columns_stay(graph: Graph) -> None:
    lives = EdgeType("LivesIn", "Person", "City")
    graph.branches.create("r")
    add(graph, "main", city(), lives)
    add(graph, "r", city(Property("people", I64, nullable=True)), lives)
    graph.apply({"City": {"insert": [{"name": "Ulm"}]}})
    graph.apply({"LivesIn": {"insert": [{"id": "l1", "from": "ada", "to": "Ulm"}]}})
    graph.apply({"City": {"insert": [{"name": "Rom", "people": 3}]}}, "r")
    graph.apply({"LivesIn": {"insert": [{"id": "l2", "from": "bob", "to": "Rom"}]}}, "r")
    graph.merge("r")
    assert set(rows(graph, type_name="LivesIn")) == {"l1", "l2"}
    assert graph.query("query q() { match { $p: Person $p livesIn $c } return { $c.people } }").rows
    assert_at_rest(graph)


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        (Property("people", TEXT), Property("people", I64), ["`people: String`", "`people: I64`"]),
        (defaulted("zone", "UTC"), defaulted("zone", "CET"), ["UTC", "CET"]),
        (defaulted("zone", "UTC"), defaulted("zone", UUID), ["UTC", "uuid"]),
    ],
)
def test_what_does_not_go_together_is_named_on_both_sides(
    graph: Graph, ours: Property, theirs: Property, said: list[str]
) -> None:
    two_sides(graph, city(ours), city(theirs))
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("r")
    assert all(part in caught.value.message for part in ("City", *said))
    assert_at_rest(graph)


def test_a_required_property_needs_a_default(graph: Graph) -> None:
    two_sides(graph, city(), city(Property("people", I64)))
    graph.apply({"City": {"insert": [{"name": "Ulm"}]}})
    with pytest.raises(MergeConflicts, match="City 'Ulm': 'people' is required"):
        graph.merge("r")


def test_rows_without_a_property_get_its_generated_default_if_it_is_required(graph: Graph) -> None:
    moment = ScalarType(ScalarKind.DATETIME)
    seen = replace(defaulted("seen", NOW, moment), nullable=True)
    there = city(defaulted("token", UUID), defaulted("made", NOW, moment), seen)
    two_sides(graph, city(), there)
    graph.apply({"City": {"insert": [{"name": "Ulm"}, {"name": "Bonn"}, {"name": "Rom"}]}})
    graph.apply({"City": {"insert": [{"name": "Rom"}, {"name": "Oslo"}]}}, "r")
    theirs = rows(graph, "r")
    graph.merge("r")
    merged = rows(graph)
    assert merged["Rom"] == theirs["Rom"]
    assert merged["Oslo"] == theirs["Oslo"]
    assert len({row["token"] for row in merged.values()}) == 4
    assert all(is_uuid(row["token"]) for row in merged.values())
    assert merged["Ulm"]["made"] == merged["Bonn"]["made"] > theirs["Rom"]["made"]
    assert merged["Ulm"]["seen"] is None
    assert_at_rest(graph)


def test_declarations_merge_three_ways() -> None:
    """Changes of a type that both sides had before."""

    def catalog(*properties: Property, **more: Any) -> Catalog:
        person = NodeType("P", (NAME, *properties), (Key(("name",)), *more.get("constraints", ())))
        return with_identities(Catalog((person,)))

    age = Property("age", I32, nullable=True)
    base = catalog(age, constraints=(Range("age", 0, 9),))
    ours = catalog(replace(age, type=I64), constraints=(Range("age", 0, 9), Unique(("age",))))
    theirs = catalog(age, Property("mail", TEXT, nullable=True))
    merged = merge_catalogs(base, ours, theirs)
    (person,) = merged.catalog.nodes
    assert [(p.name, p.type) for p in person.properties][1:] == [("age", I64), ("mail", TEXT)]
    assert person.constraints == (Key(("name",)), Unique(("age",)))
    assert [change.after.name for change in merged.adjusted if change.after] == ["P"]
    assert merge_catalogs(base, base, theirs).catalog == theirs
    assert merge_catalogs(base, theirs, base).reshaped == ()
    ranges = [catalog(age, constraints=(Range("age", low, 9),)) for low in (1, 2)]
    (conflict,) = merge_catalogs(base, *ranges).conflicts
    assert (conflict.kind, conflict.type_name, conflict.property) == (
        "SchemaDivergence",
        "P",
        "age",
    )
    assert [conflict.base, conflict.ours, conflict.theirs] == [
        f"age: I32? @range(age, {low}..9)" for low in range(3)
    ]

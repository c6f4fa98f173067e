"""Which type and property of the new text is which of the old one, with rows in them."""

from __future__ import annotations

from typing import Any

import pytest

from omnigraph.errors import LanguageError, NotFound, SchemaRefused
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph_testing.invariants import assert_at_rest, content
from omnigraph_testing.workloads import settings


def made(uri: str, schema: str, rows: dict[str, list[dict[str, Any]]]) -> Graph:
    graph = init(uri, schema, settings=settings())
    graph.apply({name: {"insert": some} for name, some in rows.items()})
    return graph


def identities(graph: Graph, branch: str = "main") -> dict[str, str]:
    found = {}
    for entity in graph.schema.show(branch).catalog.entity_types():
        found[entity.name] = entity.identity
        found |= {f"{entity.name}.{p.name}": p.identity for p in entity.properties}
    return found


def ids_and(graph: Graph, type_name: str, name: str) -> dict[str, Any]:
    return {row["id"]: row[name] for row in graph.read(type_name).to_pylist()}


def assert_sound(graph: Graph) -> None:
    report = graph.verify()
    assert report.ok, report
    assert_at_rest(graph)


THREE = """
node A { name: String @key  x: I64? }
node B { name: String @key  y: I64? }
edge E: A -> B
"""
SHIFTED = """
node C @rename_from("B") { name: String @key  y: I64? }
node B @rename_from("A") { name: String @key  x: I64? }
edge E: B -> C
"""


def test_types_shift_their_names_and_keep_rows_edges_and_history(uri: str) -> None:
    rows = {
        "A": [{"name": "a", "x": 1}],
        "B": [{"name": "b", "y": 2}],
        "E": [{"id": "e", "from": "a", "to": "b"}],
    }
    graph = made(uri, THREE, rows)
    before, first = identities(graph), content(graph)
    graph.tags.create("before")
    plan = graph.schema.plan(SHIFTED)
    assert [str(s) for s in plan.steps] == ["rename node B to C", "rename node A to B"]
    graph.schema.apply(SHIFTED)
    after = identities(graph)
    assert (after["C"], after["B"]) == (before["B"], before["A"])
    assert (after["C.y"], after["B.x"]) == (before["B.y"], before["A.x"])
    assert ids_and(graph, "B", "x") == {"a": 1}
    assert ids_and(graph, "C", "y") == {"b": 2}
    query = "query q() { match { $b: B  $c: C  $b e $c } return { $b.name as b, $c.name as c } }"
    assert graph.query(query).to_pylist() == [{"b": "a", "c": "b"}]
    again = graph.schema.apply(SHIFTED)
    assert not again.applied
    assert identities(graph) == after
    assert content(graph, at="before") == first
    graph.apply({"C": {"insert": [{"name": "c"}]}, "E": {"insert": [{"from": "a", "to": "c"}]}})
    assert_sound(open_graph(uri, settings=settings()))


def test_properties_shift_their_names(uri: str) -> None:
    graph = made(
        uri,
        "node P { name: String @key  a: I64?  b: I64? }",
        {"P": [{"name": "r", "a": 1, "b": 2}]},
    )
    query = "query q() { match { $p: P } return { $p.b as b } }"
    assert graph.query(query).to_pylist() == [{"b": 2}]
    text = 'node P { name: String @key  b: I64? @rename_from("a")  c: I64? @rename_from("b") }'
    graph.schema.apply(text)
    assert graph.query(query).to_pylist() == [{"b": 1}]
    assert ids_and(graph, "P", "c") == {"r": 2}
    assert not graph.schema.apply(text).applied
    graph.apply({"P": {"upsert": [{"name": "r", "b": 7, "c": 8}]}})
    assert ids_and(graph, "P", "b") == {"r": 7}
    assert_sound(graph)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "node A { x: I64? }\nnode B { x: I64? }",
            'node A @rename_from("B") { x: I64? }\nnode B @rename_from("A") { x: I64? }',
        ),
        (
            "node P { a: I64?  b: I64? }",
            'node P { a: I64? @rename_from("b")  b: I64? @rename_from("a") }',
        ),
        (
            "node P { a: I64?  b: I64?  c: I64? }",
            'node P { a: I64? @rename_from("c")  b: I64? @rename_from("a") '
            ' c: I64? @rename_from("b") }',
        ),
    ],
    ids=["types", "properties", "three"],
)
@pytest.mark.parametrize("filled", [True, False])
def test_a_swap_is_refused(uri: str, old: str, new: str, filled: bool) -> None:
    first = old.split()[1]
    rows = [{"id": "r", "x" if first == "A" else "a": 1}] if filled else []
    graph = made(uri, old, {first: rows})
    before, at = identities(graph), graph.commits.list()[0].graph_commit_id
    plan = graph.schema.plan(new)
    assert not plan.supported
    assert [r.code for r in plan.refusals] == ["OG-BC-103"]
    assert "temporary name" in plan.refusals[0].reason
    with pytest.raises(SchemaRefused, match="swap") as caught:
        graph.schema.apply(new, allow_data_loss=True)
    assert caught.value.refusal == "OG-BC-103"
    assert (identities(graph), graph.commits.list()[0].graph_commit_id) == (before, at)


def test_a_swap_by_way_of_a_temporary_name(uri: str) -> None:
    graph = made(
        uri,
        "node P { name: String @key  a: I64?  b: I64? }",
        {"P": [{"name": "r", "a": 1, "b": 2}]},
    )
    query = "query q() { match { $p: P } return { $p.a as a, $p.b as b } }"
    assert graph.query(query).to_pylist() == [{"a": 1, "b": 2}]
    for step in (
        't: I64? @rename_from("a")  b: I64?',
        't: I64?  a: I64? @rename_from("b")',
        'a: I64?  b: I64? @rename_from("t")',
    ):
        graph.schema.apply(f"node P {{ name: String @key  {step} }}")
    # No query in between, and the columns have the names and types that they had at first.
    assert graph.query(query).to_pylist() == [{"a": 2, "b": 1}]
    assert_sound(graph)


def test_a_leftover_hint_is_inert_and_removing_it_is_no_change(uri: str) -> None:
    graph = made(uri, "node P { a: I64? }", {"P": [{"id": "r", "a": 1}]})
    hinted = 'node P { b: I64? @rename_from("a") }'
    graph.schema.apply(hinted)
    ids = identities(graph)
    plan = graph.schema.plan(hinted)
    assert plan.steps == ()
    assert len(plan.warnings) == 1
    assert "@rename_from('a')" in plan.warnings[0]
    plain = graph.schema.apply("node P { b: I64? }")
    assert [s.kind for s in plain.plan.steps] == ["update_source"]
    assert identities(graph) == ids
    # The old name comes back as a property of its own, and the hint of the other does nothing.
    both = graph.schema.apply('node P { b: I64? @rename_from("a")  a: I64? }')
    assert [str(s) for s in both.plan.steps] == ["add P.a: I64?"]
    assert graph.read("P").to_pylist() == [{"id": "r", "b": 1, "a": None}]
    assert not graph.schema.apply('node P { b: I64? @rename_from("a")  a: I64? }').applied


def test_hints_at_init_are_inert(uri: str) -> None:
    graph = init(uri, 'node P @rename_from("Q") { b: I64? @rename_from("a") }')
    assert not graph.schema.apply("node P { b: I64? }").plan.warnings
    assert [t.name for t in graph.schema.show().catalog.nodes] == ["P"]


def test_a_dropped_property_comes_back_empty_and_new(uri: str) -> None:
    text = "node P { name: String @key  x: I64?  y: I64? }"
    graph = made(uri, text, {"P": [{"name": "r", "x": 1, "y": 2}]})
    old = identities(graph)
    graph.tags.create("before")
    query = "query q() { match { $p: P } return { $p.x as x, $p.y as y } }"
    assert graph.query(query).to_pylist() == [{"x": 1, "y": 2}]
    graph.schema.apply("node P { name: String @key  y: I64? }", allow_data_loss=True)
    graph.schema.apply(text)
    new = identities(graph)
    assert new["P.x"] != old["P.x"]
    assert new["P.y"] == old["P.y"]
    assert graph.query(query).to_pylist() == [{"x": None, "y": 2}]
    assert ids_and(graph, "P", "x") == {"r": None}
    assert graph.query(query, at="before").to_pylist() == [{"x": 1, "y": 2}]
    graph.optimize()
    assert ids_and(graph, "P", "x") == {"r": None}
    graph.apply({"P": {"upsert": [{"name": "r", "x": 5}]}})
    assert graph.query(query).to_pylist() == [{"x": 5, "y": None}]
    assert_sound(graph)


def test_a_dropped_type_comes_back_empty_and_new(uri: str) -> None:
    text = "node P { name: String @key }\nnode Q { t: String? }\nedge E: P -> Q"
    graph = made(
        uri,
        text,
        {
            "P": [{"name": "p"}],
            "Q": [{"id": "q", "t": "x"}],
            "E": [{"id": "e", "from": "p", "to": "q"}],
        },
    )
    old, first = identities(graph), content(graph)
    graph.tags.create("before")
    places = {k: p.location for k, p in graph.snapshot().tables.items()}
    graph.schema.apply("node P { name: String @key }", allow_data_loss=True)
    with pytest.raises(NotFound):
        graph.read("Q")
    graph.schema.apply(text)
    new = identities(graph)
    assert new["P"] == old["P"]
    assert {new["Q"], new["Q.t"], new["E"]}.isdisjoint(old.values())
    for key, pin in graph.snapshot().tables.items():
        assert (pin.location == places[key]) is (key.type_name == "P")
    assert (graph.read("Q").num_rows, graph.read("E").num_rows) == (0, 0)
    assert content(graph, at="before") == first
    graph.apply({"Q": {"insert": [{"id": "q"}]}, "E": {"insert": [{"from": "p", "to": "q"}]}})
    assert_sound(graph)


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        ('node P { a: I64? }\nnode N @rename_from("E") {}\nedge E: P -> P', "'E' is an edge type"),
        ('node P { a: I64? }\nedge E: P -> P\nedge F: P -> P @rename_from("P")', "'P' is a node"),
        ('node P { a: I64? }\nnode Q { c: I64? @rename_from("a") }\nedge E: P -> P', "had no 'a'"),
        ('node P { a: I64?  b: I64? @rename_from("z") }\nedge E: P -> P', "no 'z'"),
        (
            'node P { b: I64? @rename_from("a")  c: I64? @rename_from("a") }\nedge E: P -> P',
            "'b' comes from 'a' already",
        ),
        ('node P { a: I64?  b: I64? @rename_from("a") }\nedge E: P -> P', "still declared"),
    ],
    ids=["edge as node", "node as edge", "other owner", "nothing", "two claimants", "still there"],
)
def test_a_hint_that_cannot_be_followed(uri: str, new: str, reason: str) -> None:
    graph = made(uri, "node P { a: I64? }\nedge E: P -> P", {"P": [{"id": "r", "a": 1}]})
    at = graph.commits.list()[0].graph_commit_id
    plan = graph.schema.plan(new)
    assert not plan.supported
    assert reason in plan.refusals[0].reason
    with pytest.raises(SchemaRefused, match="rename_from"):
        graph.schema.apply(new, allow_data_loss=True)
    assert graph.commits.list()[0].graph_commit_id == at


@pytest.mark.parametrize(
    "hint",
    [
        "@rename_from",
        '@rename_from("")',
        '@rename_from("a") @rename_from("c")',
        '@rename_from(x="a")',
    ],
)
def test_a_hint_that_is_no_hint_has_a_position(uri: str, hint: str) -> None:
    graph = init(uri, "node P { a: I64? }")
    with pytest.raises(LanguageError) as caught:
        graph.schema.plan(f"node P {{\n  b: I64? {hint}\n}}")
    assert caught.value.diagnostics[0]["line"] == 2


def test_a_composite_key_keeps_its_ids_when_a_part_is_renamed(uri: str) -> None:
    graph = made(
        uri,
        "node P { b: String  c: String  @key(b, c) }\nedge E: P -> P",
        {"P": [{"b": "1", "c": "2"}]},
    )
    (old,) = graph.read("P").column("id").to_pylist()
    graph.apply({"E": {"insert": [{"id": "e", "from": old, "to": old}]}})
    graph.schema.apply(
        'node P { z: String @rename_from("b")  c: String  @key(z, c) }\nedge E: P -> P'
    )
    graph.apply({"P": {"upsert": [{"z": "1", "c": "2"}, {"z": "9", "c": "2"}]}})
    ids = graph.read("P").column("id").to_pylist()
    assert old in ids
    assert len(ids) == 2
    assert_sound(graph)


def test_branches_that_add_one_name_have_two_identities(uri: str) -> None:
    graph = made(uri, "node P { name: String @key }", {"P": [{"name": "r"}]})
    graph.branches.create("one")
    graph.branches.create("two")
    for branch in ("one", "two"):
        graph.schema.apply("node P { name: String @key  x: I64? }\nnode Q {}", branch=branch)
    one, two = identities(graph, "one"), identities(graph, "two")
    assert one["P"] == two["P"]
    assert one["P.x"] != two["P.x"]
    assert one["Q"] != two["Q"]


def test_a_query_names_the_type_as_it_is_called_now(uri: str) -> None:
    graph = made(uri, "node P { name: String @key }", {"P": [{"name": "r"}]})
    graph.tags.create("before")
    asks = "query q() {{ match {{ $p: {} }} return {{ type($p) as kind }} }}"
    assert graph.query(asks.format("P")).to_pylist() == [{"kind": "P"}]
    graph.schema.apply('node Q @rename_from("P") { name: String @key }')
    assert graph.query(asks.format("Q")).to_pylist() == [{"kind": "Q"}]
    assert graph.query(asks.format("P"), at="before").to_pylist() == [{"kind": "P"}]


def test_a_search_over_vectors_that_were_added_without_values(uri: str) -> None:
    graph = made(uri, "node P { name: String @key }", {"P": [{"name": "r"}, {"name": "s"}]})
    graph.schema.apply("node P { name: String @key  v: Vector(2)? @index }")
    search = (
        "query q($v: Vector(2)) { match { $p: P } return { $p.name as n } "
        "order { nearest($p.v, $v) } limit 5 }"
    )
    assert graph.query(search, params={"v": [1.0, 0.0]}).to_pylist() == []
    graph.apply({"P": {"upsert": [{"name": "s", "v": [1.0, 0.0]}]}})
    assert graph.query(search, params={"v": [1.0, 0.0]}).to_pylist() == [{"n": "s"}]
    graph.optimize()
    assert graph.query(search, params={"v": [1.0, 0.0]}).to_pylist() == [{"n": "s"}]

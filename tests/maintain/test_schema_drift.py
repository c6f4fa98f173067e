"""A schema object or a column that is not what the commit says: refused, reported, repaired."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph.catalog.identity import fingerprint
from omnigraph.catalog.serialize import catalog_from_json
from omnigraph.errors import SchemaDrift
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph_testing.invariants import assert_at_rest
from omnigraph_testing.workloads import settings

TEXT = "node P { name: String @key  age: I64?  f: F64?  b: Blob?  t: [String]?  v: Vector(2)? }\n"
EDGE = "edge Knows: P -> P { since: I64? }\n"


@pytest.fixture
def evolved(uri: str) -> Graph:
    """A graph whose columns carry the ids of their properties."""
    graph = init(uri, TEXT.replace("age", "years") + EDGE, settings=settings())
    people = [{"name": n, "years": i} for i, n in enumerate("abc")]
    edges = [{"src": "a", "dst": "b", "since": 1}]
    graph.apply({"P": {"insert": people}, "Knows": {"insert": edges}})
    graph.schema.apply(TEXT.replace("age: I64?", 'age: I64? @rename_from("years")') + EDGE)
    return graph


def tamper(graph: Graph, change: Callable[[dict[str, Any]], None], *, sign: bool) -> Graph:
    """The graph, opened again after another program changed the object of its schema."""
    file = Path(graph.uri, "__schema", f"{graph.snapshot().schema_id}.json")
    body = json.loads(file.read_text())
    change(body["catalog"])
    if sign:
        body["fingerprint"] = fingerprint(catalog_from_json(body["catalog"]))
    file.write_text(json.dumps(body))
    return open_graph(graph.uri, read_only=True, settings=settings())


def properties(catalog: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {p["name"]: p for node in catalog["nodes"] for p in node["properties"]}


def rename(catalog: dict[str, Any]) -> None:
    properties(catalog)["age"]["name"] = "old"


def test_a_changed_schema_object_is_refused(evolved: Graph) -> None:
    with pytest.raises(SchemaDrift, match="was changed after it was accepted") as caught:
        tamper(evolved, rename, sign=False).query("match { $p: P } return { $p.name }")
    error = caught.value
    assert error.schema == evolved.snapshot().schema_id
    assert error.expected != error.found


def test_a_column_of_another_name_is_refused_and_named_again(evolved: Graph) -> None:
    graph = tamper(evolved, rename, sign=True)
    for read in (
        lambda: graph.query("match { $p: P } return { $p.old }"),
        lambda: graph.read("P"),
        lambda: open_graph(graph.uri, settings=settings()).apply({"P": {"delete": ["a"]}}),
    ):
        with pytest.raises(SchemaDrift, match=r"`omnigraph repair` puts this right") as caught:
            read()
        assert (caught.value.type, caught.value.property) == ("P", "old")
        assert caught.value.expected == "column 'old' of int64"
        assert caught.value.found == "column 'age' of int64"
    findings = graph.verify().findings
    assert [(f.check, f.message) for f in findings if f.check == "columns"] == [
        ("columns", "P.old: expected column 'old' of int64, found column 'age' of int64")
    ]
    preview = graph.repair()
    assert [(c.type_name, c.property_name, c.is_safe) for c in preview.columns] == [
        ("P", "old", True)
    ]
    assert not preview.clean

    repaired = open_graph(graph.uri, settings=settings())
    assert repaired.repair(confirm=True).columns == preview.columns
    rows = repaired.query("match { $p: P } return { $p.old as x } order { $p.old }")
    assert rows.to_pylist() == [{"x": 0}, {"x": 1}, {"x": 2}]
    repaired.apply({"P": {"insert": [{"name": "d", "old": 9}]}})
    assert repaired.repair().clean
    # The commit that set the schema still has the column under its old name.
    assert set(repaired.verify().counts) == {"recorded_changes"}
    assert_at_rest(repaired)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p["age"].update(type=p["f"]["type"]), "found column 'age' of int64"),
        (lambda p: p["age"].update(identity="01M7MPN5EV54EF79FS3K0EDZMZ"), "found the column of"),
    ],
    ids=["another type", "another identity"],
)
def test_other_differences_are_not_repaired(
    evolved: Graph, change: Callable[[Any], None], message: str
) -> None:
    graph = tamper(evolved, lambda catalog: change(properties(catalog)), sign=True)
    with pytest.raises(SchemaDrift, match="restore the files") as caught:
        graph.query("match { $p: P } return { $p.age }")
    assert message in str(caught.value)
    (found,) = open_graph(graph.uri, settings=settings()).repair(confirm=True).columns
    assert not found.is_safe
    with pytest.raises(SchemaDrift):
        open_graph(graph.uri, settings=settings()).read("P")


def test_a_table_is_compared_once(evolved: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, compared = open_graph(evolved.uri, settings=settings()), []
    original = graph.engine.store.remember_checked
    monkeypatch.setattr(
        graph.engine.store,
        "remember_checked",
        lambda what: (compared.append(what), original(what)),
    )
    for _ in range(3):
        graph.query('match { $p: P { name: "a" } } return { $p.age }')
        graph.read("P", ids=["b"])
    assert len(compared) == 1

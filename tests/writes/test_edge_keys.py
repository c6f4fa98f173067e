"""Edge types with a key: ids come from the ends, and one key is one edge."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import init
from omnigraph.catalog.model import Key
from omnigraph.errors import KeyConflict, ValidationFailed
from omnigraph.graph.handle import Graph
from omnigraph.schema.build import catalog_from_text
from omnigraph.schema.catalog_text import catalog_text
from omnigraph_testing.graph_helpers import exported

SCHEMA = """
node Person { name: String @key }
edge Knows: Person -> Person { since: Date?  @key(to, from) }
edge Rated: Person -> Person { topic: String  stars: I32?  @key(src, dst, topic) }
"""
PEOPLE = [{"name": name} for name in ("ada", "bob")]


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    found = init(tmp_path / "graph.omni", SCHEMA)
    found.apply({"Person": {"insert": PEOPLE}})
    return found


def test_the_ends_come_first_in_the_id() -> None:
    catalog = catalog_from_text(SCHEMA)
    assert catalog.edge_types["Knows"].key == ("src", "dst")
    assert catalog.edge_types["Rated"].constraints == (Key(("src", "dst", "topic")),)
    assert catalog_from_text(catalog_text(catalog)) == catalog


def test_an_insert_of_an_edge_that_exists_is_refused(graph: Graph) -> None:
    insert = 'query q() { insert Knows { from: "ada", to: "bob", since: date("2020-01-01") } }'
    graph.mutate(insert)
    assert exported(graph).splitlines()[2] == (
        '{"edge":"Knows","from":"ada","to":"bob","data":{"since":"2020-01-01"}}'
    )
    with pytest.raises(KeyConflict, match="ada"):
        graph.mutate(insert)


def test_an_upsert_replaces_the_edge_of_the_same_key(graph: Graph) -> None:
    edge = {"from": "ada", "to": "bob", "topic": "tea", "stars": 1}
    graph.apply({"Rated": {"upsert": [edge, edge | {"topic": "rum"}]}})
    receipt = graph.apply({"Rated": {"upsert": [edge | {"stars": 5}]}})
    assert receipt.affected_edges == 1
    assert [line.partition('"data":')[2] for line in exported(graph).splitlines()[2:]] == [
        '{"topic":"rum","stars":1}}',
        '{"topic":"tea","stars":5}}',
    ]
    assert graph.apply({"Rated": {"upsert": [edge | {"stars": 5}]}}).commit is None


def test_an_id_that_does_not_spell_the_key_is_refused(graph: Graph) -> None:
    with pytest.raises(ValidationFailed, match="spelling of the key"):
        graph.apply({"Knows": {"insert": [{"id": "x", "from": "ada", "to": "bob"}]}})


def test_a_load_derives_the_ids_of_edges(graph: Graph, tmp_path: Path) -> None:
    lines = tmp_path / "in.ndjson"
    lines.write_text('{"edge":"Knows","from":"ada","to":"bob"}\n' * 2)
    with pytest.raises(ValidationFailed, match="twice"):
        graph.load(lines)
    receipt = graph.load(lines, "merge")
    assert (receipt.edges[0].inserted, receipt.edges[0].unchanged) == (1, 1)
    assert graph.load(lines, "merge").commit is None
    lines.write_text('{"edge":"Knows","from":"ada","to":"bob"}\n')
    with pytest.raises(KeyConflict, match="exists already"):
        graph.load(lines)

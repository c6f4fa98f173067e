"""The counts of a load by type: inserted, updated, unchanged, removed, cascaded, set to NULL."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import init
from omnigraph.graph.handle import Graph
from omnigraph.load import write_tables
from omnigraph.load.options import LoadReceipt, TypeCounts

SCHEMA = """
node Person { name: String @key  age: I32?  city: String? }
node Note { text: String }
edge Knows: Person -> Person { since: Date? }
edge Wrote: Person -> Note
"""
BASE = """
{"type":"Person","data":{"name":"ada","age":1,"city":"x"}}
{"type":"Person","data":{"name":"bob","age":2}}
{"type":"Person","data":{"name":"cy"}}
{"type":"Note","data":{"id":"n","text":"t"}}
{"edge":"Knows","from":"ada","to":"bob","data":{"id":"k1"}}
{"edge":"Knows","from":"bob","to":"cy","data":{"id":"k2"}}
{"edge":"Wrote","from":"cy","to":"n","data":{"id":"w1"}}
"""


@pytest.fixture(params=["looked up", "compared in a pass"])
def graph(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Graph:
    if request.param == "compared in a pass":
        monkeypatch.setattr(write_tables, "_LOOKED_UP_ROWS", 0)
    found = init(tmp_path / "graph.omni", SCHEMA)
    (tmp_path / "base.ndjson").write_text(BASE)
    found.load(tmp_path / "base.ndjson")
    return found


def loaded(graph: Graph, folder: Path, mode: str, text: str, **options: object) -> LoadReceipt:
    path = folder / "in.ndjson"
    path.write_text(text)
    return graph.load(path, mode, **options)  # type: ignore[arg-type]


def test_merge_counts_every_row_once(graph: Graph, tmp_path: Path) -> None:
    text = """
{"type":"Person","data":{"name":"ada","age":1}}
{"type":"Person","data":{"name":"bob","age":2}}
{"type":"Person","data":{"name":"dan","age":4}}
{"type":"Person","data":{"name":"dan","age":5}}
"""
    receipt = loaded(graph, tmp_path, "merge", text)
    assert receipt.nodes == (
        TypeCounts("Person", 4, inserted=1, updated=1, unchanged=2, properties_nulled=1),
    )
    assert receipt.edges == ()
    again = loaded(graph, tmp_path, "merge", text)
    assert again.nodes == (TypeCounts("Person", 4, unchanged=4),)
    assert again.commit is None


def test_overwrite_counts_what_it_removes(graph: Graph, tmp_path: Path) -> None:
    receipt = loaded(
        graph, tmp_path, "overwrite", '{"type":"Person","data":{"name":"bob","age":3}}\n'
    )
    assert receipt.nodes == (TypeCounts("Person", 1, updated=1, removed=2),)
    assert receipt.edges == (TypeCounts("Knows", cascaded=2), TypeCounts("Wrote", cascaded=1))
    assert (receipt.total_entities, receipt.total_removed) == (1, 5)


def test_edges_of_a_type_in_the_input_are_removed_and_not_cascaded(
    graph: Graph, tmp_path: Path
) -> None:
    text = """
{"type":"Person","data":{"name":"bob","age":2}}
{"type":"Person","data":{"name":"cy"}}
{"edge":"Knows","from":"bob","to":"cy","data":{"id":"k2"}}
"""
    receipt = loaded(graph, tmp_path, "overwrite", text)
    assert receipt.nodes == (TypeCounts("Person", 2, unchanged=2, removed=1),)
    assert receipt.edges == (TypeCounts("Knows", 1, unchanged=1, removed=1),)


def test_a_repeated_load_tells_the_counts_of_its_commit(graph: Graph, tmp_path: Path) -> None:
    text = '{"type":"Person","data":{"name":"eve"}}\n'
    first = loaded(graph, tmp_path, "append", text, idempotency_key="once")
    again = loaded(graph, tmp_path, "append", text, idempotency_key="once")
    assert (first.repeated, again.repeated) == (False, True)
    assert again.nodes == first.nodes == (TypeCounts("Person", 1, inserted=1),)

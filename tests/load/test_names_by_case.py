"""Properties that differ in case alone, or are called like columns of ours or words of SQL."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.errors import ValidationFailed
from omnigraph.export import sorted_rows
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph_testing.graph_helpers import with_parts

SCHEMA = """
node N { k: String @key  name: String? @unique  nAme: String? @unique  p1: I64?
  order: I64?  @unique(p1, order) }
edge E: N -> N { iD: String? @unique  sRc: String?  @unique(src, sRc) }
"""


@pytest.fixture(params=["looked up", "joined"])
def graph(request: pytest.FixtureRequest, uri: str) -> Graph:
    graph = init(uri, SCHEMA)
    if request.param == "looked up":
        return graph
    return with_parts(graph, loader=replace(graph.engine.loader, small_input=-1))


def nodes(first: int, last: int) -> pa.Table:
    numbers = range(first, last)
    return pa.table(
        {
            "k": [f"k{n}" for n in numbers],
            "name": [f"x{n}" for n in numbers],
            "nAme": [f"y{n}" for n in numbers],
            "p1": [n // 2 for n in numbers],
            "order": [n % 2 for n in numbers],
        }
    )


def test_loads_keep_them_apart(graph: Graph, tmp_path: Path, monkeypatch) -> None:
    graph.load(nodes(0, 20), type="N")
    graph.load(nodes(10, 30), "merge", type="N")
    edges = pa.table(
        {"from": ["k1", "k1"], "to": ["k2", "k3"], "iD": ["a", "b"], "sRc": ["k1", "k2"]}
    )
    graph.load(edges, type="E")
    monkeypatch.setattr(sorted_rows, "_SORTED_IN_MEMORY", 0)
    graph.export(tmp_path / "out.ndjson")
    again = init(tmp_path / "again.omni", SCHEMA)
    again.load(tmp_path / "out.ndjson")
    expected = {row["k"]: row for row in nodes(0, 30).to_pylist()}
    for found in (graph, again):
        rows = {row.pop("id"): row for row in found.read("N").to_pylist()}
        assert rows == expected
        assert found.read("E").num_rows == 2
    graph.load(tmp_path / "out.ndjson", "overwrite")
    assert graph.read("N").num_rows == 30


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [("name", "x3", "@unique(name): name='x3'"), ("nAme", "y3", "@unique(nAme): nAme='y3'")],
)
@pytest.mark.parametrize("mode", ["append", "merge"])
def test_each_has_its_own_values(graph: Graph, column, value, message, mode) -> None:
    graph.load(nodes(0, 20), type="N")
    with pytest.raises(ValidationFailed) as caught:
        graph.load(pa.table({"k": ["new"], column: [value]}), mode, type="N")
    assert message in str(caught.value)
    free = {"name": "y3", "nAme": "x3"}[column]
    graph.load(pa.table({"k": ["new"], column: [free]}), mode, type="N")


def test_of_repeated_rows_the_last_counts(graph: Graph) -> None:
    twice = pa.table({"k": ["a", "b", "a"], "name": ["1", "2", "2"], "nAme": ["2", "1", "3"]})
    with pytest.raises(ValidationFailed, match="name='2'"):
        graph.load(twice, "merge", type="N")
    graph.load(twice.slice(0, 2), "merge", type="N")
    again = pa.table({"k": ["a", "a"], "name": ["9", "1"], "nAme": ["9", "7"]})
    graph.load(again, "merge", type="N")
    rows = graph.read("N", columns=["k", "name", "nAme"]).to_pylist()
    assert sorted((r["k"], r["name"], r["nAme"]) for r in rows) == [
        ("a", "1", "7"),
        ("b", "2", "1"),
    ]

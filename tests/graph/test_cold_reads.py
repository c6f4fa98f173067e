"""Large types that are not in memory: a name or a filter reads only the rows it is about."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph.settings.models import ReadSettings, Settings

ROWS = 100_000
# So many that a scan costs less than half of loading the type without a cache file: see
# `execute/topology/builds.py`.
NO_FILES = Settings(read=ReadSettings(cache_directory=""))
SCHEMA = """
node Item { name: String @key  n: I32?  u: U64?  day: Date?  f: F64?  text: String? }
"""


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    graph = init(tmp_path_factory.mktemp("cold") / "g.omni", SCHEMA)
    start = dt.date(2000, 1, 1)
    rows = pa.table(
        {
            "name": [f"i'{k:05}" for k in range(ROWS)],
            "n": pa.array([None if k % 7 == 0 else k % 100 - 50 for k in range(ROWS)], pa.int32()),
            "u": pa.array([2**64 - 1 - k for k in range(ROWS)], pa.uint64()),
            "day": [start + dt.timedelta(days=k % 50) for k in range(ROWS)],
            "f": [k / 3 for k in range(ROWS)],
            "text": [f"\"; drop table {k % 9} -- '" for k in range(ROWS)],
        }
    )
    graph.apply({"Item": {"insert": rows}})
    graph.optimize()
    return graph.uri


@pytest.fixture(scope="module")
def warm(uri: str) -> Graph:
    graph = open_graph(uri, read_only=True, settings=NO_FILES)
    columns = "$i.n, $i.u, $i.day, $i.f, $i.text, $i.name"
    graph.query(
        f"query q() {{ match {{ $i: Item }} return {{ {columns} }} order {{ {columns} }} }}"
    )
    assert in_memory(graph)
    return graph


def both(warm: Graph, text: str, params: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """The answer of a graph that has nothing in memory, checked against one that has."""
    cold = open_graph(warm.uri, read_only=True, settings=NO_FILES)
    found = cold.query(text, params=params).to_pylist()
    assert not in_memory(cold)
    assert found == warm.query(text, params=params).to_pylist()
    return found


def in_memory(graph: Graph) -> bool:
    views = graph.engine.queries._at(graph.snapshot()).executor.views
    table = views.table(graph.snapshot().catalog.node_types["Item"].table_key)
    return bool(table.content.columns)


def test_a_name(warm: Graph) -> None:
    text = "query q($k: String) { match { $i: Item { name: $k } } return { $i.n, $i.day } }"
    assert both(warm, text, {"k": "i'00001"}) == [{"i.n": -49, "i.day": dt.date(2000, 1, 2)}]
    assert both(warm, text, {"k": "x' OR '1'='1"}) == []


def test_several_names(warm: Graph) -> None:
    text = "query q($k: [String]) { match { $i: Item $i.name in $k $i.n > 0 } return { $i.name } }"
    names = ["i'00003", "i'00099", "i'00098", "nobody", "i'00099"]
    assert both(warm, text, {"k": names}) == [{"i.name": "i'00099"}]


@pytest.mark.parametrize(
    ("condition", "params"),
    [
        ("$i.n > 45", {}),
        ("-49 >= $i.n", {}),
        ('$i.day = date("2000-02-01")', {}),
        ("$i.text = $t $i.n < 0", {"t": "\"; drop table 4 -- '"}),
        ("$i.n < 45 $i.u > 18446744073709551600", {}),
        ("$i.n > 45 $i.f > 100.0 $i.u > 5", {}),
        ("$i.n > 45 $i.n / 2 = 23", {}),
    ],
)
def test_a_filter(warm: Graph, condition: str, params: dict[str, Any]) -> None:
    head = "query q($t: String)" if params else "query q()"
    text = f"{head} {{ match {{ $i: Item {condition} }} return {{ $i.name, $i.n }} }}"
    assert both(warm, text, params)


def test_order_limit_and_groups(warm: Graph) -> None:
    found = both(
        warm,
        "query q() { match { $i: Item $i.n > 40 } return { $i.n, count($i) as c } "
        "order { $i.n desc } limit 2 }",
    )
    assert [row["i.n"] for row in found] == [49, 48]


def test_in_the_end_the_type_is_in_memory(uri: str) -> None:
    graph = open_graph(uri, read_only=True, settings=NO_FILES)
    text = "query q() { match { $i: Item $i.n = 49 } return { $i.name } }"
    first = graph.query(text).to_pylist()
    assert not in_memory(graph)
    for _ in range(12):
        assert graph.query(text).to_pylist() == first
    assert graph.engine.queries._cache.builds.settle()
    assert graph.query(text).to_pylist() == first
    assert in_memory(graph)


def test_explain_says_so(uri: str) -> None:
    graph = open_graph(Path(uri), read_only=True)
    plan = str(graph.explain("query q() { match { $i: Item $i.n = 49 } return { $i.name } }"))
    assert "id, n, name straight from storage" in plan

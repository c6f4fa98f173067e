"""Point queries on tables not read yet: the same answers, and nothing is read for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, reject, settings

from omnigraph.errors import InvalidArgument
from omnigraph.execute.evaluation import storage_reads
from omnigraph.execute.traversal import expand
from omnigraph.execute.views.snapshot_views import SnapshotViews, ViewCache
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.shape import Edit
from omnigraph_testing.executor_suite import plain, run_reference, same_value
from omnigraph_testing.random_queries import RandomQuery, random_queries
from omnigraph_testing.suite_executors import ColdGraphs, with_cache

SCHEMA = "node P { name: String @key  age: I32? }\nedge Knows: P -> P { since: I32 }"
HOP = (
    "query q($n: String) { match { $a: P { name: $n } $a $k:knows $b } "
    "return { $b.age, $k.since } }"
)
TWO = (
    "query q($n: String) { match { $a: P { name: $n } $a knows $b $b knows $c } "
    "return { $a.age, $c.name } order { $c.name } }"
)
CYCLE = (
    "query q($n: String) { match { $a: P { name: $n } $a knows $b $b knows $a } return { $b.age } }"
)


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = init(tmp_path / "g", SCHEMA)
    people = [{"name": f"p{n}", "age": n} for n in range(20)]
    edges = [
        {"from": f"p{n}", "to": f"p{(n * m) % 20}", "since": m}
        for n in range(20)
        for m in (1, 2, 9)
    ]
    graph.apply({"P": Edit(insert=people), "Knows": Edit(insert=edges)})
    return graph


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    for free in ("_SMALL", "_LOOKUP", "_PER_ID", "_PER_SCANNED_ROW", "_PER_FRAGMENT"):
        monkeypatch.setattr(storage_reads, free, 0)
    for free in ("_HOP", "_PER_SOURCE"):
        monkeypatch.setattr(expand, free, 0)


@pytest.mark.parametrize("text", [HOP, TWO])
@pytest.mark.usefixtures("eager")
def test_nothing_is_read_for_a_point(graph: Graph, text: str) -> None:
    cache = ViewCache(graph.engine.reader, 1 << 30)
    cold = with_cache(graph, cache)
    for name in ("p3", "p19", "nobody", "p0"):
        found = cold.query(text, params={"n": name}).to_pylist()
        assert found == graph.query(text, params={"n": name}).to_pylist()
    views = SnapshotViews(graph.snapshot(), cache)
    assert not views.table(TableKey.parse("node:P")).is_built
    assert not views.adjacency("Knows").is_ready


@pytest.mark.usefixtures("eager")
def test_a_cycle_meets_the_node_it_began_with(graph: Graph) -> None:
    cold = with_cache(graph, ViewCache(graph.engine.reader, 1 << 30))
    for number in range(20):
        params = {"n": f"p{number}"}
        expected = graph.query(CYCLE, params=params).to_pylist()
        assert cold.query(CYCLE, params=params).to_pylist() == expected


def test_whoever_keeps_asking_gets_the_whole(
    graph: Graph, eager: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expand, "_HOP", 20)
    cache = ViewCache(graph.engine.reader, 1 << 30)
    cold = with_cache(graph, cache)
    for _ in range(5):
        cold.query(HOP, params={"n": "p3"})
    assert SnapshotViews(graph.snapshot(), cache).adjacency("Knows").is_ready


TYPES = """
node T { k: String @key  i: I64?  u: U64?  s: String?  b: Bool?  d: Date?  m: DateTime?
  e: enum(x, y)?  f: F64? }
"""
ROWS = [
    {"k": "a", "i": -(2**63), "u": 0, "s": "it's", "b": True, "e": "x", "f": 0.5},
    {"k": "b", "i": 2**53, "u": 2**63, "s": "é", "b": False, "e": "y", "f": -0.0},
    {"k": "c", "i": 2**53 + 1, "u": 2**64 - 1, "s": "", "d": "0001-01-01"},
    {"k": "d", "i": 2**63 - 1, "u": 1, "d": "9999-12-31", "m": "9999-12-31T23:59:59.999Z"},
    {"k": "e", "m": "0001-01-01T00:00:00Z", "f": 1e300},
]
# What finds few rows is asked of storage; the rest is in memory afterwards.
FOUND_COLD = {
    "$t.i = -9223372036854775808": ["a"],
    "$t.i <= 9007199254740992": ["a", "b"],
    "9007199254740992 < $t.i": ["c", "d"],
    "$t.u >= 9223372036854775808": ["b", "c"],
    "$t.u in [0, 18446744073709551615]": ["a", "c"],
    '$t.s = "it\'s"': ["a"],
    '"a" > $t.s': ["c"],
    '$t.s in ["é", ""]': ["b", "c"],
    '$t.d < "0001-01-02"': ["c"],
    '"9999-12-31T23:59:59.999Z" = $t.m': ["d"],
    '$t.m < "1970-01-01T00:00:00Z"': ["e"],
    '$t.e = "y"': ["b"],
    '$t.s != "é" and $t.i < 0 and $t.b = true': ["a"],
    "$t.i > 0 and $t.d is null": ["b"],
    "$t.i > 0 and $t.f >= 0.0": ["b"],
}
FOUND_IN_MEMORY = {
    "$t.b = false": ["b"],
    "$t.s is null": ["d", "e"],
    "$t.d is not null": ["c", "d"],
    '$t.e != "x"': ["b"],
    "$t.f = 0.0": ["b"],
    "$t.f > 1.0": ["e"],
    "$t.i > 0 or $t.b = true": ["a", "b", "c", "d"],
}


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    graph = init(tmp_path_factory.mktemp("typed") / "g", TYPES)
    graph.apply({"T": Edit(insert=ROWS)})
    return graph


@pytest.mark.parametrize("condition", [*FOUND_COLD, *FOUND_IN_MEMORY])
@pytest.mark.usefixtures("eager")
def test_conditions_of_every_type(typed: Graph, condition: str) -> None:
    text = f"query q() {{ match {{ $t: T {condition} }} return {{ $t.k }} order {{ $t.k }} }}"
    cache = ViewCache(typed.engine.reader, 1 << 30)
    found = [row["t.k"] for row in with_cache(typed, cache).query(text).to_pylist()]
    assert found == (FOUND_COLD | FOUND_IN_MEMORY)[condition]
    table = SnapshotViews(typed.snapshot(), cache).table(TableKey.parse("node:T"))
    assert table.is_built == (condition in FOUND_IN_MEMORY)


@given(query=random_queries())
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_cold_answers_like_the_reference(query: RandomQuery, cold: ColdGraphs) -> None:
    try:
        columns, rows = run_reference(query.graph, query.source, query.parameters)
    except InvalidArgument:
        reject()
    names, answer = cold.run(query.graph, query.source, query.parameters)
    assert list(names) == list(columns)
    expected = [[plain(row[name]) for name in columns] for row in rows]
    assert same_value(expected, [[plain(row[name]) for name in columns] for row in answer])


def test_memory_stays_within_its_bound(graph: Graph) -> None:
    """However little there is, answers are right; only the last thing used may exceed it."""
    cache = ViewCache(graph.engine.reader, 4_000)
    small = with_cache(graph, cache)
    for round_number in range(3):
        for text in (HOP, TWO, CYCLE):
            params = {"n": f"p{round_number}"}
            expected = graph.query(text, params=params).to_pylist()
            assert small.query(text, params=params).to_pylist() == expected
        graph.apply({"P": Edit(upsert=[{"name": "p1", "age": 100 + round_number}])})
    assert cache.memory.used_bytes <= 8_000

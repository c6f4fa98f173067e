"""Point queries on tables not read yet: the same answers, and nothing is read for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, reject, settings

from omnigraph.errors import InvalidArgument
from omnigraph.execute.evaluation import storage_reads
from omnigraph.execute.topology import adjacency
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
    for free in ("_SMALL", "_LOOKUP", "_PER_ID", "_PER_SCANNED_ROW"):
        monkeypatch.setattr(storage_reads, free, 0)
    for free in ("_HOP", "_PER_SOURCE"):
        monkeypatch.setattr(adjacency, free, 0)


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
    assert not views.adjacency("Knows").is_at_hand


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
    monkeypatch.setattr(adjacency, "_HOP", 20)
    cache = ViewCache(graph.engine.reader, 1 << 30)
    cold = with_cache(graph, cache)
    for _ in range(5):
        cold.query(HOP, params={"n": "p3"})
    assert SnapshotViews(graph.snapshot(), cache).adjacency("Knows").is_at_hand


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

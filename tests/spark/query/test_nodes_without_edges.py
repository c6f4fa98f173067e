"""`not { $p knows $f }` over every node: workers compare hashes, and Spark sees what is left."""

from __future__ import annotations

from typing import Any

import pytest

from omnigraph import Edit, init
from omnigraph.graph.handle import Graph
from omnigraph.spark.query import expand

pytestmark = [
    pytest.mark.xdist_group("spark_reads"),
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("many_tasks"),
]

SCHEMA = """
node Person { name: String @key  age: I32? }
node Pet { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge Owns: Person -> Pet
edge Likes: Person -> Person
"""
# Whether no row of edges comes to Spark, and the pattern.
PATTERNS = [
    (True, "$p: Person not { $p knows $_ }"),
    (True, "$p: Person not { $_ knows $p }"),
    (True, "$p: Person not { $p owns $_ }"),
    (True, "$p: Person not { $p likes $_ }"),
    (True, "$p: Pet not { $_ owns $p }"),
    (True, "$p: Person not { $p knows $_ } not { $p owns $_ }"),
    (False, "$p: Person not { $p knows $p }"),
    (False, "$p: Person $p.age > 20 not { $p knows $_ }"),
    (False, "$p: Person not { $p knows $f $f.age > 20 }"),
    (False, "$p: Person not { $p $k:knows $_ $k.since > 3 }"),
    (False, "$p: Person not { $p knows{1,2} $f $f knows $p }"),
    (False, "$p: Person not { $p knows $f $f owns $_ }"),
]


@pytest.fixture(scope="module")
def graph(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Persons a to h; deleted nodes and deleted edges are in it, and a table without rows."""
    graph = init(tmp_path_factory.mktemp("alone") / "g", SCHEMA)
    persons = [{"name": name, "age": n * 10} for n, name in enumerate("abcdefgh")]
    graph.apply(
        {
            "Person": Edit(insert=persons),
            "Pet": Edit(insert=[{"name": "x"}, {"name": "y"}]),
            "Knows": Edit(
                insert=[
                    {"from": a, "to": b, "since": n}
                    for n, (a, b) in enumerate(["ab", "ba", "bc", "bc", "dd", "eh", "ge", "ha"])
                ]
            ),
            "Owns": Edit(insert=[{"from": "a", "to": "x"}, {"from": "c", "to": "x"}]),
        }
    )
    return graph


def count(graph: Graph, pattern: str, engine: str, branch: str = "main", **at: str) -> Any:
    text = f"query q() {{ match {{ {pattern} }} return {{ count($p) as n }} }}"
    return graph.query(text, engine=engine, branch=branch, **at).to_pylist()[0]["n"]


@pytest.mark.parametrize(("without_rows", "pattern"), PATTERNS)
def test_it_finds_what_the_local_engine_finds(
    graph: Graph, pattern: str, without_rows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = []
    for name in ("nodes_without", "without_starts"):
        made = getattr(expand, name)
        monkeypatch.setattr(expand, name, lambda *args, f=made: called.append(1) or f(*args))
    assert count(graph, pattern, "spark") == count(graph, pattern, "local")
    assert bool(called) == without_rows


@pytest.mark.parametrize("rows", ["count(*) as n", "count($p) as n, count(distinct $p) as m"])
@pytest.mark.parametrize("one_task", [True, False])
def test_nodes_are_counted_without_reading_them(
    graph: Graph, rows: str, one_task: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expand, "nodes_without", None)
    if not one_task:
        monkeypatch.setattr("omnigraph.spark.query.edge_counts._ROWS_PER_PART", 2)
    for _, pattern in PATTERNS[:5]:
        text = f"query q() {{ match {{ {pattern} }} return {{ {rows} }} }}"
        found, expected = (
            graph.query(text, engine=engine).to_pylist() for engine in ("spark", "local")
        )
        assert found == expected


def test_deleted_rows_and_older_states_count_as_they_are(graph: Graph) -> None:
    pattern = PATTERNS[0][1]
    before = graph.snapshot().graph_commit_id
    graph.branches.create("later")
    # Of a to h, c and f have no edge. With a its edges go, and h had no other; e loses its edge.
    graph.mutate('query q() { delete Person where name = "a" }', branch="later")
    graph.mutate("query q() { delete Knows where since = 5 }", branch="later")
    assert count(graph, pattern, "spark", "later") == 4
    assert count(graph, pattern, "spark") == 2
    graph.mutate('query q() { delete Person where name = "f" }', branch="later")
    assert count(graph, pattern, "spark", "later") == 3
    assert count(graph, pattern, "spark", at=before) == 2

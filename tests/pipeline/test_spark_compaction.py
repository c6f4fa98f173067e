"""`optimize(engine="spark")`: executors rewrite, the driver commits, nothing else changes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from omnigraph.changes.shape import Edit
from omnigraph.errors import InvalidArgument
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.testing.invariants import assert_at_rest
from omnigraph.values.identifiers import node_table

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("spark"),
    pytest.mark.timeout(900),
]
SCHEMA = """
node P { name: String @key  n: I32  text: String @index }
edge K: P -> P
"""
ALL = "query q() { match { $p: P optional { $p k $q } } return { $p, $q.name } }"


@pytest.fixture
def scattered(tmp_path: Path) -> Graph:
    """Many small fragments, some rows replaced and deleted."""
    graph = init(tmp_path / "g", SCHEMA)
    for n in range(12):
        person = {"name": f"p{n}", "n": n, "text": f"word{n}"}
        graph.apply({"P": Edit(insert=[person]), "K": Edit(insert=[{"from": f"p{n}", "to": "p0"}])})
    graph.apply({"P": Edit(upsert=[{"name": "p3", "n": 33, "text": "other"}])})
    graph.apply({"P": Edit(delete=["p5"])})
    return graph


def fragments(graph: Graph, branch: str = "main") -> int:
    at = graph.snapshot(branch).pin(node_table("P")).at
    return len(graph.engine.store.open(at).get_fragments())


def test_the_files_are_fewer_and_nothing_else_changed(scattered: Graph) -> None:
    before, head = scattered.query(ALL).to_arrow(), scattered.snapshot().graph_commit_id
    assert fragments(scattered) > 5
    assert scattered.optimize(engine="spark") == []
    assert fragments(scattered) == 1
    assert scattered.snapshot().graph_commit_id == head
    assert scattered.query(ALL).to_arrow() == before
    assert all(row.pending_rows == 0 for row in scattered.index_status())
    assert_at_rest(scattered)
    assert scattered.optimize(engine="spark") == [], "nothing is left to do"


def test_a_branch_is_rewritten_by_itself(scattered: Graph) -> None:
    scattered.branches.create("b")
    scattered.apply({"P": Edit(insert=[{"name": "new", "n": 0, "text": "x"}])}, "b")
    many = fragments(scattered)
    before = scattered.query(ALL, branch="b").to_arrow()
    assert scattered.optimize("b", ["P"], engine="spark") == []
    assert (fragments(scattered, "b"), fragments(scattered)) == (1, many)
    assert scattered.query(ALL, branch="b").to_arrow() == before


def test_a_writer_who_gets_in_between_wins(scattered: Graph, monkeypatch: Any) -> None:
    compactor = type(scattered.engine.spark_compactor)
    run_tasks = compactor.run_tasks

    def slow(self: Any, store: Any, at: Any, tasks: Any) -> Any:
        done = run_tasks(self, store, at, tasks)
        scattered.apply(
            {"P": Edit(insert=[{"name": f"late{os.urandom(4).hex()}", "n": 1, "text": ""}])}
        )
        return done

    monkeypatch.setattr(compactor, "run_tasks", slow)
    assert scattered.optimize("main", ["P"], engine="spark") == ["P"]
    assert scattered.query(
        "query q() { match { $p: P } return { count($p) as n } }"
    ).to_pylist() == [{"n": 12}]
    assert_at_rest(scattered)


def test_other_engines_are_refused(scattered: Graph) -> None:
    with pytest.raises(InvalidArgument, match="there is: local, spark"):
        scattered.optimize(engine="flink")

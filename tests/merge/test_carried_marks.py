"""A merge brings the marks of streams, with what their commits recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph import Contention, StreamBatch

SCHEMA = "node Person { name: String @key }"
STREAM = "pipeline:nightly"


@pytest.fixture
def graph(tmp_path: Path) -> Any:
    return omnigraph.init(tmp_path / "g.omni", SCHEMA)


def batch(graph: Any, number: int, branch: str, name: str) -> Any:
    run = {"name": "nightly", "stream": STREAM, "run_id": f"run {number}", "lists": []}
    return graph.load(
        [{"name": name}],
        "merge",
        branch,
        type="Person",
        stream_batch=StreamBatch(STREAM, number),
        details={"pipeline": run},
    )


def mark(graph: Any, branch: str = "main") -> Any:
    return graph.engine.reader.branch(branch)[1].streams.get(STREAM)


def test_a_merge_carries_marks_forward(graph: Any) -> None:
    batch(graph, 0, "main", "a")
    graph.branches.create("review")
    batch(graph, 1, "review", "b")
    batch(graph, 2, "review", "c")
    assert mark(graph).batch == 0
    merged = graph.merge("review", delete_branch=True).commit
    assert (mark(graph).batch, mark(graph).commit_id) == (2, merged.graph_commit_id)
    assert merged.details["carried"][STREAM]["run_id"] == "run 2"
    assert batch(graph, 2, "main", "again").repeated
    assert not batch(graph, 3, "main", "d").repeated
    listed = graph.commits.list(pipeline="nightly")
    assert [c.details["pipeline"]["run_id"] for c in listed] == ["run 3", "run 2", "run 1", "run 0"]


def test_a_merge_moves_no_mark_back(graph: Any) -> None:
    graph.branches.create("old")
    batch(graph, 0, "old", "a")
    for number in range(3):
        batch(graph, number, "main", f"m{number}")
    merged = graph.merge("old").commit
    assert mark(graph).batch == 2
    assert "carried" not in merged.details


def test_a_carried_mark_is_carried_on(graph: Any) -> None:
    graph.branches.create("first")
    graph.branches.create("second")
    batch(graph, 4, "first", "a")
    graph.merge("first", "second")
    graph.merge("second")
    assert mark(graph).batch == 4
    details = graph.commits.show("main").details["carried"][STREAM]
    assert details["run_id"] == "run 4"


def test_one_holder_of_a_lease(graph: Any) -> None:
    leases = graph.engine.leases
    with leases.hold("nightly", "ada", 0.0):
        assert leases.holder("nightly").actor_id == "ada"
        with (
            omnigraph.open(graph.uri) as other,
            pytest.raises(Contention),
            other.engine.leases.hold("nightly", "bob", 0.0),
        ):
            pass
        with leases.hold("weekly", "bob", 0.0):
            pass
    assert leases.holder("nightly") is None
    with leases.hold("nightly", "bob", 0.0):
        pass

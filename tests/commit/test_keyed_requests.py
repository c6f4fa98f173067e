"""Two processes with the same idempotency key: the second one returns what the first one did."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph import failpoints
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.manifest.layout import REQUESTS
from omnigraph_testing.crash import start
from omnigraph_testing.invariants import assert_at_rest
from omnigraph_testing.workloads import change_branch, create_small_graph, settings

LATER = 'delete Note where text = "later"'


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return create_small_graph(str(tmp_path / "graph.omni"))


def before_it_begins(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]
) -> Graph:
    """Another process, in which `action` happens just before a request is known to run."""
    other = open_graph(graph.uri, settings=settings(), actor=graph.actor)
    begin, left = other.engine.requests._begin, [action]

    def late(*arguments: Any) -> Any:
        while left:
            left.pop()()
        return begin(*arguments)

    monkeypatch.setattr(other.engine.requests, "_begin", late)
    return other


def test_a_branch_that_another_process_made_meanwhile(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = before_it_begins(
        graph, monkeypatch, lambda: graph.branches.create("side", idempotency_key="k")
    )
    other.branches.create("side", idempotency_key="k")
    (left,) = graph.engine.store.files.list(REQUESTS)
    assert left.endswith(".done")


def test_a_write_without_effect_that_another_process_made_meanwhile(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its repetition must not do what the first one had no reason to do."""

    def meanwhile() -> None:
        assert graph.mutate(LATER, idempotency_key="k").commit is None
        graph.apply({"Note": {"insert": [{"text": "later"}]}})

    other = before_it_begins(graph, monkeypatch, meanwhile)
    found = other.mutate(LATER, idempotency_key="k")
    assert (found.commit, found.repeated) == (None, True)
    assert "later" in graph.read("Note")["text"].to_pylist()


POINTS = [(point.partition("_")[0].partition(".")[2], point) for point in failpoints.BRANCH_POINTS]
POINTS = [
    *((operation, point) for operation, point in POINTS if operation != "before"),
    ("rename", "branch.before_unref"),
    ("delete", "branch.before_unref"),
]


@pytest.mark.crash
@pytest.mark.parametrize(("operation", "point"), POINTS)
def test_a_killed_change_of_a_branch_is_made_once(graph: Graph, operation: str, point: str) -> None:
    if operation != "create":
        graph.branches.create("old")
    arguments = {"uri": graph.uri, "operation": operation}
    workload = "omnigraph_testing.workloads:keyed_branch_change"
    code, _, _ = start(workload, arguments, failpoints=f"{point}=kill").finish()
    assert code == -signal.SIGKILL
    other = open_graph(graph.uri, settings=settings(), actor=graph.actor)
    change_branch(other, operation)
    assert change_branch(other, operation), "the repetition is remembered, too"
    expected = {"main"} if operation == "delete" else {"main", "new"}
    assert {branch.name for branch in other.branches.list()} == expected
    assert_at_rest(other)

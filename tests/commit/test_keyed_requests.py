"""Two processes with the same idempotency key: the second one returns what the first one did."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.manifest.layout import REQUESTS
from omnigraph_testing.workloads import create_small_graph, settings

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

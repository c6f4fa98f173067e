"""`close()`, `with` and `repr` of a graph."""

from __future__ import annotations

import gc
import inspect
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph import Graph, GraphClosed
from omnigraph_testing.workloads import create_small_graph


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = create_small_graph(tmp_path / "graph.omni")
    graph.apply({"Note": {"insert": [{"id": "n1", "text": "x"}]}})
    return graph


CALLS: dict[str, Callable[[Graph], Any]] = {
    "query": lambda g: g.query("query q() { match { $n: Note } return { $n.text } }"),
    "explain": lambda g: g.explain("query q() { match { $n: Note } return { $n.text } }"),
    "mutate": lambda g: g.mutate('query q() { delete Note where text = "x" }'),
    "apply": lambda g: g.apply({"Note": {"delete": ["n1"]}}),
    "load": lambda g: g.load([], type="Note"),
    "read": lambda g: g.read("Note"),
    "snapshot": lambda g: g.snapshot(),
    "diff": lambda g: g.diff("main", "main"),
    "merge": lambda g: g.merge("main"),
    "status": lambda g: g.status(),
    "branches": lambda g: g.branches.list(),
    "tags": lambda g: g.tags.create("v1"),
    "commits": lambda g: g.commits.list(),
    "schema": lambda g: g.schema.show(),
    "for_repair": lambda g: g.for_repair(),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_closed_graph_says_so(graph: Graph, name: str) -> None:
    graph.close()
    graph.close()
    with pytest.raises(GraphClosed, match=r"graph\.omni is closed: open the graph again") as e:
        CALLS[name](graph)
    assert e.value.uri == graph.uri


def test_with_closes(graph: Graph) -> None:
    with omnigraph.open(graph.uri) as opened:
        result = opened.query('query q() { match { $n: Note { id: "n1" } } return { $n.text } }')
    assert result.to_pylist() == [{"n.text": "x"}]
    with pytest.raises(GraphClosed):
        opened.read("Note")
    with pytest.raises(ZeroDivisionError), omnigraph.open(graph.uri) as opened:
        raise ZeroDivisionError
    with pytest.raises(GraphClosed):
        opened.read("Note")
    assert graph.read("Note").num_rows == 2


def test_closing_stops_the_upkeep_and_frees_the_parts(graph: Graph) -> None:
    engine = graph.engine
    graph.query("query q() { match { $n: Note } return { $n.text } }")
    reconciler, views = engine.reconciler, weakref.ref(engine.queries)
    graph.close()
    assert reconciler.settle(0)
    assert not [t for t in threading.enumerate() if t.name == "omnigraph-upkeep"]
    del reconciler
    gc.collect()
    assert views() is None
    assert len(engine.store._handles) == 0


def test_two_handles_do_not_close_each_other(graph: Graph) -> None:
    other = graph.for_repair()
    graph.close()
    assert other.read("Note").num_rows == 2
    other.apply({"Note": {"insert": [{"id": "n2", "text": "y"}]}})


def test_repr_tells_the_graph_and_its_head(graph: Graph, tmp_path: Path) -> None:
    head = graph.snapshot().graph_commit_id
    assert repr(graph) == f"<Graph {graph.uri}, actor 'tester', main at {head}>"
    reader = omnigraph.open(graph.uri, read_only=True)
    assert repr(reader) == f"<Graph {graph.uri}, read-only, main at {head}>"
    (tmp_path / "graph.omni").rename(tmp_path / "elsewhere.omni")
    lost = omnigraph.open(tmp_path / "elsewhere.omni", read_only=True)
    (tmp_path / "elsewhere.omni").rename(tmp_path / "again.omni")
    assert "head unknown (" in repr(lost) or "main at" in repr(lost)
    reader.close()
    assert repr(reader) == f"<Graph {graph.uri}, read-only, closed>"


def test_every_public_method_goes_through_the_open_handle() -> None:
    """A method that kept an engine of its own would go on after `close`."""
    assert "self._engine =" not in inspect.getsource(Graph)

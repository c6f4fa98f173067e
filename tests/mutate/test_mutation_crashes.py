"""A killed mutation did everything or nothing, at whatever point it was killed."""

from __future__ import annotations

import signal

import pytest

from omnigraph import failpoints
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph_testing import workloads
from omnigraph_testing.crash import start
from omnigraph_testing.invariants import assert_at_rest, content

pytestmark = pytest.mark.crash

FORKS = {"commit.after_fork_branch", "commit.after_fork_publish"}
POINTS = [p for p in failpoints.COMMIT_POINTS + failpoints.PUBLISH_POINTS if p not in FORKS]
NOTHING = {
    "commit.after_stage",
    "commit.before_arm",
    "commit.after_arm",
    "commit.after_revalidate",
    "commit.after_advance_first",
}
ADD = """query add() {
  insert Person { name: "eve", age: 7 }
  insert Knows { id: "k1", from: "eve", to: "bob" }
  update Person set { age: age + 1 } where name = "eve" or name = "ada"
}"""
REMOVE = 'query remove() { delete Person where name = "ada" }'


def kill_at(point: str, uri: str, source: str) -> Graph:
    child = start(
        "omnigraph_testing.workloads:mutate_once",
        {"uri": uri, "source": source},
        failpoints=f"{point}=kill",
    )
    code, _, stderr = child.finish()
    assert code == -signal.SIGKILL, f"{point} was not reached: {stderr}"
    return open_graph(uri, settings=workloads.settings())


@pytest.mark.parametrize("point", POINTS)
def test_insert_and_update(graph: Graph, uri: str, point: str) -> None:
    before = content(graph)
    reopened = kill_at(point, uri, ADD)
    found = content(reopened)
    if point in NOTHING:
        assert found == before
        receipt = reopened.mutate(ADD)
        assert (receipt.affected_nodes, receipt.affected_edges) == (2, 1)
        found = content(reopened)
    ages = {name: person["age"] for name, person in found["Person"].items()}
    assert ages == {"ada": 2, "bob": 2, "eve": 8}
    assert set(found["Knows"]) == {"k0", "k1"}
    assert_at_rest(reopened)


@pytest.mark.parametrize(
    "point", ["commit.after_stage", "commit.after_advance_first", "commit.after_advance"]
)
def test_delete_with_its_edges(graph: Graph, uri: str, point: str) -> None:
    before = content(graph)
    reopened = kill_at(point, uri, REMOVE)
    if point in NOTHING:
        assert content(reopened) == before
        receipt = reopened.mutate(REMOVE)
        assert (receipt.affected_nodes, receipt.affected_edges) == (1, 1)
    assert set(content(reopened)["Person"]) == {"bob"}
    assert content(reopened).get("Knows", {}) == {}
    assert_at_rest(reopened)

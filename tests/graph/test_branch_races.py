"""A branch deleted by one process and made again by another, on each kind of storage."""

from __future__ import annotations

import time

import pytest

from omnigraph.errors import NotFound
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph_testing import workloads
from omnigraph_testing.crash import start
from omnigraph_testing.invariants import assert_at_rest, content
from omnigraph_testing.workloads import LEASE

DELETE = "omnigraph_testing.workloads:delete_one_branch"


def wait_until_deleted(graph: Graph, name: str) -> None:
    for _ in range(3000):
        try:
            graph.snapshot(name)
        except NotFound:
            return
        time.sleep(0.01)
    pytest.fail(f"{name} is still there")


@pytest.mark.crash
@pytest.mark.parametrize("pause", [LEASE / 4, LEASE * 2], ids=["slow", "outlives its lease"])
def test_a_late_delete_spares_the_branch_made_again(
    any_graph: Graph, any_uri: str, pause: float
) -> None:
    """It sleeps between its look at the ref and the removal; whoever comes waits, or takes over."""
    any_graph.branches.create("x")
    any_graph.apply({"Note": {"insert": [{"id": "old", "text": "x"}]}}, "x")
    sleeps = f"branch.before_unref=sleep:{pause}"
    deleting = start(DELETE, {"uri": any_uri, "name": "x"}, failpoints=sleeps)
    wait_until_deleted(any_graph, "x")

    any_graph.branches.create("x")
    any_graph.apply({"Note": {"insert": [{"id": "again", "text": "x"}]}}, "x")

    code, _, stderr = deleting.finish()
    assert code == 0, stderr
    any_graph.apply({"Note": {"insert": [{"id": "later", "text": "x"}]}}, "x")
    fresh = open_graph(any_uri, settings=workloads.settings())
    assert [b.name for b in fresh.branches.list()] == ["main", "x"]
    assert set(content(fresh, "x")["Note"]) == {"n0", "again", "later"}
    assert_at_rest(fresh)

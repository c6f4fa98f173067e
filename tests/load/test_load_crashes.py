"""A load that is killed leaves nothing or everything, whatever the moment."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from omnigraph import failpoints
from omnigraph.graph.open import open_graph
from omnigraph_testing import workloads
from omnigraph_testing.crash import start
from omnigraph_testing.invariants import assert_at_rest, content

pytestmark = pytest.mark.crash

LINES = """{"type":"Person","data":{"name":"ada","age":5}}
{"type":"Person","data":{"name":"eve"}}
{"edge":"Knows","from":"eve","to":"ada","data":{"id":"k9"}}
"""
NOTHING = (*failpoints.LOAD_POINTS, "commit.after_stage", "commit.after_advance_first")
EVERYTHING = ("commit.after_advance", "publish.after_swap", "commit.after_disarm")


@pytest.mark.parametrize("point", [*NOTHING, *EVERYTHING])
def test_killed(uri: str, tmp_path: Path, point: str) -> None:
    before = content(workloads.create_small_graph(uri))
    path = tmp_path / "in.ndjson"
    path.write_text(LINES)
    child = start(
        "omnigraph_testing.workloads:load_file",
        {"uri": uri, "path": str(path), "mode": "merge"},
        failpoints=f"{point}=kill",
    )
    code, _, stderr = child.finish()
    assert code == -signal.SIGKILL, stderr
    graph = open_graph(uri, settings=workloads.settings())
    graph.refresh()
    after = content(graph)
    if point in NOTHING:
        assert after == before
    else:
        assert set(after["Person"]) == {"ada", "bob", "eve"}
        assert set(after["Knows"]) == {"k0", "k9"}
    assert_at_rest(graph)
    assert graph.load(path, "merge").total_entities == 3
    assert content(graph)["Person"]["ada"]["age"] == 5
    assert_at_rest(graph)


FORKING = ("branch.create_after_physical", "branch.create_after_ref")
UNCOMMITTED = (
    "load.after_prepare",
    "load.after_write",
    "commit.after_stage",
    "commit.after_advance",
)
COMMITTED = ("commit.after_publish", "commit.after_disarm")


@pytest.mark.parametrize("point", [*FORKING, *UNCOMMITTED, *COMMITTED])
def test_killed_on_a_branch_of_its_own(uri: str, tmp_path: Path, point: str) -> None:
    before = content(workloads.create_small_graph(uri))
    path = tmp_path / "in.ndjson"
    path.write_text(LINES)
    arguments = {"uri": uri, "path": str(path), "mode": "merge"}
    child = start(
        "omnigraph_testing.workloads:load_file",
        {**arguments, "branch": "import", "from_branch": "main"},
        failpoints=f"{point}=kill",
    )
    code, _, stderr = child.finish()
    assert code == -signal.SIGKILL, stderr
    graph = open_graph(uri, settings=workloads.settings())
    graph.refresh()
    assert content(graph) == before
    names = [branch.name for branch in graph.branches.list()]
    assert names == (["main", "import"] if point in COMMITTED else ["main"])
    receipt = graph.load(path, "merge", branch="import", from_branch="main", engine="local")
    assert receipt.branch_created == (point not in COMMITTED)
    assert_at_rest(graph)
    assert content(graph) == before

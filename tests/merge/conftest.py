from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.graph.handle import Graph
from omnigraph_testing.merge_tasks_here import tasks_here
from omnigraph_testing.workloads import create_small_graph


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return create_small_graph(str(tmp_path / "graph.omni"))


@pytest.fixture(params=["local", "tasks"])
def both_engines(request: pytest.FixtureRequest) -> Iterator[str]:
    """Rows are merged here, then by the tasks that Spark would run."""
    if request.param == "local":
        yield request.param
        return
    with tasks_here():
        yield request.param

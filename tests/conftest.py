from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import failpoints
from omnigraph.graph.handle import Graph
from omnigraph.testing.workloads import create_small_graph


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "graph.omni")


@pytest.fixture
def graph(uri: str) -> Graph:
    return create_small_graph(uri)


@pytest.fixture(autouse=True)
def _no_failpoint_outlives_its_test():
    yield
    failpoints.disarm_all()

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.graph.handle import Graph
from omnigraph_testing.workloads import create_small_graph


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return create_small_graph(str(tmp_path / "graph.omni"))

from __future__ import annotations

from pathlib import Path

import pytest
from frames import SCHEMA

from omnigraph import init
from omnigraph.graph.handle import Graph


@pytest.fixture
def people(tmp_path: Path) -> Graph:
    return init(tmp_path / "people.omni", SCHEMA)

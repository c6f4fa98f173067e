from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from omnigraph.graph.handle import Graph
from omnigraph.testing.s3_server import BUCKET
from omnigraph.testing.workloads import create_small_graph


@pytest.fixture
def s3_uri(s3: object) -> str:
    return f"s3://{BUCKET}/{uuid.uuid4()}"


@pytest.fixture(params=["file", pytest.param("s3", marks=pytest.mark.s3)])
def any_uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh address on each kind of storage."""
    if request.param == "s3":
        return str(request.getfixturevalue("s3_uri"))
    return str(tmp_path / "graph.omni")


@pytest.fixture
def any_graph(any_uri: str) -> Graph:
    return create_small_graph(any_uri)

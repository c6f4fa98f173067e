from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from omnigraph.graph.handle import Graph
from omnigraph_testing.s3_server import S3Server
from omnigraph_testing.workloads import create_small_graph


@pytest.fixture
def s3_uri(s3: S3Server) -> str:
    # A bucket of its own: moto's listings slow down with everything else in a bucket.
    bucket = f"b{uuid.uuid4()}"
    s3.create_bucket(bucket)
    return f"s3://{bucket}/some/graph"


@pytest.fixture(params=["file", pytest.param("s3", marks=pytest.mark.s3)])
def any_uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh address on each kind of storage."""
    if request.param == "s3":
        return str(request.getfixturevalue("s3_uri"))
    return str(tmp_path / "graph.omni")


@pytest.fixture
def any_graph(any_uri: str) -> Graph:
    return create_small_graph(any_uri)

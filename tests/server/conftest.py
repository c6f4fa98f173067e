from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from omnigraph_testing.http_server import ThreadServer
from omnigraph_testing.workloads import create_small_graph, settings


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadServer]:
    """One open server for a module, with the small graph under the id `default`."""
    uri = str(tmp_path_factory.mktemp("served") / "graph.omni")
    create_small_graph(uri).close()
    with ThreadServer(uri, engine=settings()) as running:
        yield running


@pytest.fixture(scope="module")
def http(server: ThreadServer) -> Iterator[httpx.Client]:
    """A client of the graph `default`."""
    with server.graph_client() as client:
        yield client


@pytest.fixture
def uri(tmp_path: Path) -> str:
    path = str(tmp_path / "graph.omni")
    create_small_graph(path).close()
    return path

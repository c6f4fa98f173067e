from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from omnigraph import failpoints
from omnigraph.graph.handle import Graph
from omnigraph.settings.models import PipelineSettings
from omnigraph.spark import spark_session, stop_session
from omnigraph_testing.console_process import BROWSER
from omnigraph_testing.s3_server import S3Server
from omnigraph_testing.workloads import create_small_graph

# Examples are judged by what they assert, not by how busy the machine is. The default suite tries
# the same ones every time, so that a change is judged by itself; `HYPOTHESIS_PROFILE=explore`
# (`make test-all`) looks for new ones.
settings.register_profile("omnigraph", deadline=None, derandomize=True, database=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "omnigraph"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if BROWSER is None:
        terminalreporter.write_line(
            "left out: tests/console/stories, which need Chromium (apt-get install chromium)"
        )


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "graph.omni")


@pytest.fixture
def graph(uri: str) -> Graph:
    return create_small_graph(uri)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The endpoint, with the environment of this test and its children pointing at it alone."""
    _point_at(s3_server, monkeypatch)
    return s3_server


@pytest.fixture(scope="session")
def spark(s3_server: S3Server) -> Iterator[Any]:
    """The one Spark session of this pytest process; small, because several may run at once.

    Credentials of a bucket are those of the environment that Spark was started in.
    """
    with pytest.MonkeyPatch.context() as patch:
        _point_at(s3_server, patch)
        session = spark_session(PipelineSettings(master="local[2,4]", driver_memory="1g"))
    yield session
    stop_session()


def _point_at(server: S3Server, patch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        patch.delenv(name)
    for name, value in server.environment().items():
        patch.setenv(name, value)


@pytest.fixture(autouse=True)
def _no_failpoint_outlives_its_test() -> Iterator[None]:
    yield
    failpoints.disarm_all()

"""The shared cases of `omnigraph_testing.load_suite`, on Spark, in small pieces."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import OmnigraphError
from omnigraph.graph.handle import Graph
from omnigraph.settings.models import Settings
from omnigraph_testing.graph_helpers import with_parts
from omnigraph_testing.load_engines import SMALL_PIECES
from omnigraph_testing.load_suite import (
    BAD_FILES,
    BAD_GRAPHS,
    BAD_INPUTS,
    GOOD_INPUTS,
    BadInput,
    GoodInput,
    base_graph,
    check_bad,
    check_good,
)
from omnigraph_testing.rejected_loads import (
    SKIPPED_INPUTS,
    SkippedInput,
    check_everything_at_once,
    check_limit,
    check_skipped,
)

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

# What is wrong with one line is found by the local engine's own parser: some of them do by default.
OFTEN = {*(case.name for case in (*BAD_FILES, *BAD_GRAPHS)), *(c.name for c in BAD_INPUTS[::9])}
FRESH_ID = re.compile(r"01[0-9A-HJKMNP-TV-Z]{24}")


def cases() -> list[Any]:
    return [
        pytest.param(
            case, id=case.name[:40], marks=[] if case.name in OFTEN else [pytest.mark.slow]
        )
        for case in BAD_INPUTS
    ]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Refused loads change nothing, so they can share a graph."""
    return base_graph(tmp_path_factory.mktemp("shared"), SMALL_PIECES)


def joining(graph: Graph) -> Graph:
    """The same graph with the checks for large inputs."""
    return with_parts(graph, spark_loader=replace(graph.engine.spark_loader, small_input=-1))


def said(error: OmnigraphError) -> str:
    return FRESH_ID.sub("<id>", str(error.to_dict()))


def in_pieces(graph: Graph, case: BadInput) -> Graph:
    """A piece of 300 bytes for each task, unless that would be thousands of them."""
    loader = graph.engine.spark_loader
    if sum(map(len, case.files.values())) > 10_000:
        loader = replace(loader, settings=Settings())
    return with_parts(graph, spark_loader=loader)


@pytest.mark.parametrize("case", cases())
def test_bad_and_the_report_is_the_local_one(shared: Graph, tmp_path: Path, case: BadInput) -> None:
    on_spark = check_bad(in_pieces(shared, case), tmp_path, case, "spark")
    assert said(on_spark) == said(check_bad(shared, tmp_path, case, "local"))


@pytest.mark.slow
@pytest.mark.parametrize("case", BAD_GRAPHS, ids=lambda case: case.name)
def test_bad_when_joined(shared: Graph, tmp_path: Path, case: BadInput) -> None:
    check_bad(joining(shared), tmp_path, case, "spark")


@pytest.mark.parametrize("case", GOOD_INPUTS, ids=lambda case: case.name)
@pytest.mark.parametrize(
    "joined",
    [pytest.param(False, id="looked up"), pytest.param(True, id="joined", marks=pytest.mark.slow)],
)
def test_good(tmp_path: Path, case: GoodInput, joined: bool) -> None:
    graph = base_graph(tmp_path, SMALL_PIECES)
    check_good(joining(graph) if joined else graph, tmp_path, case, "spark")


@pytest.mark.parametrize("case", SKIPPED_INPUTS, ids=lambda case: case.name)
def test_bad_rows_are_skipped(tmp_path: Path, case: SkippedInput) -> None:
    check_skipped(base_graph(tmp_path, SMALL_PIECES), tmp_path, case, "spark")


def test_more_bad_rows_than_allowed(shared: Graph, tmp_path: Path) -> None:
    check_limit(shared, tmp_path, SKIPPED_INPUTS[0], "spark")


def test_everything_is_reported_at_once(shared: Graph, tmp_path: Path) -> None:
    on_spark = check_everything_at_once(shared, tmp_path, "spark")
    assert said(on_spark) == said(check_everything_at_once(shared, tmp_path, "local"))

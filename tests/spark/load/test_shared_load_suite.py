"""The shared cases of `omnigraph_testing.load_suite`, on Spark, in small pieces."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omnigraph import init
from omnigraph.errors import OmnigraphError
from omnigraph.graph.handle import Graph
from omnigraph.settings.models import Settings
from omnigraph.spark.load import written_tables
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
KNOWS = "edge Knows: Person -> Person {}"
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
@pytest.mark.parametrize("held", [True, False], ids=["held", "read again"])
def test_bad_when_joined(
    shared: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: BadInput, held: bool
) -> None:
    if not held:
        monkeypatch.setattr(written_tables, "_HELD_ROWS", -1)
    check_bad(joining(shared), tmp_path, case, "spark")


@pytest.mark.parametrize("case", GOOD_INPUTS, ids=lambda case: case.name)
@pytest.mark.parametrize(
    "checks",
    [
        "looked up",
        pytest.param("joined", marks=pytest.mark.slow),
        pytest.param("read again", marks=pytest.mark.slow),
    ],
)
def test_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: GoodInput, checks: str
) -> None:
    graph = base_graph(tmp_path, SMALL_PIECES)
    if checks == "read again":
        monkeypatch.setattr(written_tables, "_HELD_ROWS", -1)
    check_good(graph if checks == "looked up" else joining(graph), tmp_path, case, "spark")


@pytest.mark.parametrize(
    ("mode", "rows", "message"),
    [
        ("append", {"Person": ["ada", "bob"]}, None),
        ("append", {"Person": ["ada", "ada"]}, "occurs twice"),
        ("append", {"Person": ["old"]}, "exists already"),
        ("merge", {"Person": ["ada", "ada", "old"]}, None),
        ("append", {"Person": ["ada"], "Knows": [("ada", "old")]}, None),
        ("append", {"Person": ["ada"], "Knows": [("ada", "nemo")]}, "there is no Person 'nemo'"),
    ],
)
def test_rows_that_are_not_kept_in_memory(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spark: Any,
    mode: str,
    rows: dict[str, list[Any]],
    message: str | None,
) -> None:
    """Checks of many rows read them again; here two rows are many."""
    monkeypatch.setattr(written_tables, "_HELD_ROWS", -1)
    graph = joining(init(tmp_path / "g.omni", "node Person { name: String @key }\n" + KNOWS))
    graph.load({"Person": [{"name": "old"}]})
    frames = {
        name: spark.createDataFrame(
            [(each,) if isinstance(each, str) else each for each in values],
            "name STRING" if name == "Person" else "`from` STRING, `to` STRING",
        )
        for name, values in rows.items()
    }
    if message is None:
        graph.load(frames, mode, engine="spark")
        people = {*rows["Person"], "old"}
        assert {row["id"] for row in graph.read("Person").to_pylist()} == people
    else:
        with pytest.raises(OmnigraphError, match=message):
            graph.load(frames, mode, engine="spark")


@pytest.mark.parametrize("case", SKIPPED_INPUTS, ids=lambda case: case.name)
def test_bad_rows_are_skipped(tmp_path: Path, case: SkippedInput) -> None:
    check_skipped(base_graph(tmp_path, SMALL_PIECES), tmp_path, case, "spark")


def test_more_bad_rows_than_allowed(shared: Graph, tmp_path: Path) -> None:
    check_limit(shared, tmp_path, SKIPPED_INPUTS[0], "spark")


def test_everything_is_reported_at_once(shared: Graph, tmp_path: Path) -> None:
    on_spark = check_everything_at_once(shared, tmp_path, "spark")
    assert said(on_spark) == said(check_everything_at_once(shared, tmp_path, "local"))

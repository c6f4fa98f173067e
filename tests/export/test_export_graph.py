"""Exports as files: whole graphs, single types, older commits."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph import init
from omnigraph.graph.handle import Graph
from omnigraph_testing.graph_helpers import exported
from omnigraph_testing.two_people import LINES, SCHEMA


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return init(tmp_path / "people.omni", SCHEMA)


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "people.ndjson"
    path.write_text(LINES)
    return path


@pytest.mark.parametrize("export_format", ["ndjson", "csv", "parquet"])
def test_an_export_loads_to_an_equal_export(
    graph: Graph, lines: Path, tmp_path: Path, export_format: str
) -> None:
    graph.load(lines)
    target = tmp_path / ("out.ndjson" if export_format == "ndjson" else "out")
    receipt = graph.export(target, format=export_format)
    assert receipt.total_entities == 6
    other = init(tmp_path / "other.omni", SCHEMA)
    other.load(target)
    assert exported(other) == exported(graph)
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []


def test_export_of_a_commit_and_of_some_types(graph: Graph, lines: Path) -> None:
    first = graph.load(lines).commit
    assert first is not None
    before = exported(graph)
    graph.load(pa.table({"name": ["cy"]}), type="Person")
    assert exported(graph, at=first.graph_commit_id) == before
    assert exported(graph, types=["Note"]).count("\n") == 2

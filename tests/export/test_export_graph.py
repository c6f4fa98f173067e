"""Exports as files: whole graphs, single types, older commits."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph import init
from omnigraph.graph.handle import Graph

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  joined: DateTime?
  tags: [String]?
  vec: Vector(2)?
  photo: Blob?
}
node Note { text: String }
edge Knows: Person -> Person @card(0..2) { since: Date? }
edge Wrote: Person -> Note
"""

LINES = """// two people
{"type":"Person","data":{"name":"ada","age":3,"joined":"2024-01-02T03:04:05.5Z","tags":["x"],\
"vec":[1,2.5],"photo":"base64:aGVsbG8="}}
{"type": "Person", "data": {"name": "bob", "age": 4}}

{"edge":"Knows","from":"ada","to":"bob","data":{"since":"2020-01-01"}}
{"type":"Note","data":{"text":"hi","id":"n0"}}
{"type":"Note","data":{"text":"ho","id":"n1"}}
{"edge":"Wrote","from":"ada","to":"n1","data":{"id":"w1"}}
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return init(tmp_path / "people.omni", SCHEMA)


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "people.ndjson"
    path.write_text(LINES)
    return path


def exported(graph: Graph, **options: object) -> str:
    sink = io.BytesIO()
    graph.export(sink, **options)  # type: ignore[arg-type]
    return sink.getvalue().decode()


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

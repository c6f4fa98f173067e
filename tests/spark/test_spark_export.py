from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import InvalidArgument
from omnigraph_testing.load_engines import masked, new_graph

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

PEOPLE = [{"name": f"p{i}", "age": i, "photo": bytes([i])} for i in range(30)]


@pytest.mark.parametrize("export_format", ["ndjson", "csv", "parquet"])
def test_parts_load_to_an_equal_graph(tmp_path: Path, export_format: str) -> None:
    graph = new_graph(tmp_path / "g")
    graph.apply({"Person": {"insert": PEOPLE[:20]}})
    graph.apply({"Person": {"insert": PEOPLE[20:], "delete": ["p3"]}})
    graph.apply({"Knows": {"insert": [{"from": "p1", "to": "p2", "since": None}]}})
    target = tmp_path / "out"
    receipt = graph.export(target, format=export_format, engine="spark")
    assert receipt.total_entities == 30
    names = sorted(p.name for p in target.iterdir())
    assert names == [f"Knows.00000.{export_format}", f"Person.00000.{export_format}"]
    other = new_graph(tmp_path / "other")
    other.load(target)
    assert masked(other) == masked(graph)
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    graph = new_graph(tmp_path / "g")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(InvalidArgument, match="not an empty directory"):
        graph.export(tmp_path / "full", engine="spark")
    with pytest.raises(InvalidArgument, match="known formats: ndjson, csv, parquet"):
        graph.export(tmp_path / "out", format="xml", engine="spark")
    with pytest.raises(InvalidArgument, match="give a path"):
        graph.export(engine="spark")
    with pytest.raises(InvalidArgument, match="no export engine"):
        graph.export(engine="flink")
    assert graph.export(tmp_path / "out", engine="spark").total_entities == 0

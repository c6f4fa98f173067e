"""Vectors made at load time, and exports sorted on disk."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph import init
from omnigraph.errors import ModelMismatch
from omnigraph.export import sorted_rows
from omnigraph.settings.models import EmbeddingSettings, Settings

SCHEMA = (
    'node Doc {{ name: String @key  text: String?  vec: Vector(8)? @embed("text", model="{}") }}'
)
SETTINGS = Settings(embedding=EmbeddingSettings(provider="mock", model="m", width=8))


def test_missing_vectors_are_made_and_given_ones_kept(tmp_path: Path) -> None:
    graph = init(tmp_path / "g.omni", SCHEMA.format("m"), settings=SETTINGS)
    path = tmp_path / "in.ndjson"
    rows = [{"name": "a", "text": "x"}, {"name": "b", "text": "x", "vec": [1.0] * 8}, {"name": "c"}]
    path.write_text("\n".join(json.dumps({"type": "Doc", "data": row}) for row in rows))
    graph.load(path)
    made, given, none = graph.read("Doc", ids=["a", "b", "c"])["vec"].to_pylist()
    assert made is not None
    assert len(made) == 8
    assert (given, none) == ([1.0] * 8, None)


def test_apply_makes_missing_vectors_too(tmp_path: Path) -> None:
    graph = init(tmp_path / "g.omni", SCHEMA.format("m"), settings=SETTINGS)
    graph.apply({"Doc": {"insert": [{"name": "a", "text": "x"}, {"name": "c"}]}})
    graph.apply({"Doc": {"upsert": [{"name": "b", "text": "x"}, {"name": "c", "text": "y"}]}})
    found = {row["id"]: row["vec"] for row in graph.read("Doc").to_pylist()}
    assert found["a"] == found["b"]
    assert found["c"] not in (None, found["a"])


def test_another_model_is_refused(tmp_path: Path) -> None:
    graph = init(tmp_path / "g.omni", SCHEMA.format("other"), settings=SETTINGS)
    with pytest.raises(ModelMismatch):
        graph.load(pa.table({"name": ["a"], "text": ["x"]}), type="Doc")
    assert graph.read("Doc").num_rows == 0


def test_an_export_sorted_on_disk_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = (
        "node T { name: String @key  tags: [String]?  vec: Vector(2)?  at: DateTime?  b: Blob? }"
    )
    graph = init(tmp_path / "g.omni", schema)
    names = [f"n{i * 7919 % 500}" for i in range(500)]
    table = pa.table(
        {
            "name": names,
            "tags": [["x", name] if len(name) > 2 else None for name in names],
            "vec": [[1.0, float(len(name))] if len(name) > 2 else None for name in names],
            "at": pa.array(range(500), pa.timestamp("ms")),
            "b": [name.encode() for name in names],
        }
    )
    graph.load(table, type="T", engine="local")
    in_memory, on_disk = io.BytesIO(), io.BytesIO()
    graph.export(in_memory)
    monkeypatch.setattr(sorted_rows, "_SORTED_IN_MEMORY", 10)
    graph.export(on_disk)
    assert on_disk.getvalue() == in_memory.getvalue()
    exported = [json.loads(line)["data"]["name"] for line in in_memory.getvalue().splitlines()]
    assert exported == sorted(names)

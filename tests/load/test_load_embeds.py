"""Vectors made at load time."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph import init
from omnigraph.errors import ModelMismatch
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


def test_a_patch_keeps_the_vector_of_a_text_that_stays(tmp_path: Path) -> None:
    """Only a changed text gets a new vector; a vector of the caller stays with its text."""
    graph = init(tmp_path / "g.omni", SCHEMA.format("m"), settings=SETTINGS)
    own = [1.0] * 8
    graph.load([{"name": "a", "text": "x", "vec": own}, {"name": "b", "text": "x"}], type="Doc")
    first = {row["id"]: row["vec"] for row in graph.read("Doc").to_pylist()}
    rows = [{"name": "a", "text": "x"}, {"name": "b"}, {"name": "new", "text": "x"}]
    graph.load(rows, "patch", type="Doc")
    found = {row["id"]: row["vec"] for row in graph.read("Doc").to_pylist()}
    assert found == {**first, "new": first["b"]}
    assert graph.load(rows, "patch", type="Doc").commit is None
    changed = [{"name": "a", "text": "y"}, {"name": "b", "text": None}]
    graph.load(changed, "patch", type="Doc")
    found = {row["id"]: row["vec"] for row in graph.read("Doc").to_pylist()}
    assert found["a"] not in (own, first["b"], None)
    assert (found["b"], found["new"]) == (None, first["b"])
    assert graph.load(changed, "patch", type="Doc").commit is None

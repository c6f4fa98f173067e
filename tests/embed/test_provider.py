from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.embed.mock import MockProvider
from omnigraph.embed.provider import fill_vectors
from omnigraph.errors import ModelMismatch
from omnigraph.schema.build import catalog_from_text
from omnigraph.writes.derived import fill_embeddings

VECTOR = pa.list_(pa.float32(), 2)


def test_only_missing_vectors_with_a_text_are_made() -> None:
    provider = MockProvider("m", 2)
    texts = pa.chunked_array([["a", "b"], [" ", None, "a"]], pa.string())
    vectors = pa.chunked_array([pa.array([None, [1, 2]], VECTOR), pa.nulls(3, VECTOR)])
    filled = fill_vectors(provider, texts, vectors, "m").to_pylist()
    assert filled[1:4] == [[1, 2], None, None]
    assert filled[0] == filled[4] == pytest.approx(provider.embed(["a"])[0])


def test_a_model_that_does_not_fit_is_refused_when_it_would_be_used() -> None:
    provider = MockProvider("m", 3)
    given = pa.array([[1, 2]], VECTOR)
    assert fill_vectors(provider, pa.array(["a"]), given, "other") is given
    with pytest.raises(ModelMismatch):
        fill_vectors(provider, pa.array(["a"]), pa.nulls(1, VECTOR), "m")
    with pytest.raises(ModelMismatch):
        fill_vectors(provider, pa.array(["a"]), pa.nulls(1, pa.list_(pa.float32(), 3)), "other")


def test_all_embed_properties_of_a_type() -> None:
    schema = 'node Doc { text: String? v: Vector(2)? @embed("text", model="m") }'
    doc = catalog_from_text(schema).node_types["Doc"]
    rows = pa.table({"id": ["1"], "text": ["a"], "v": pa.nulls(1, VECTOR)})
    assert fill_embeddings(doc, rows, MockProvider("m", 2)).column("v").null_count == 0

from __future__ import annotations

from omnigraph.catalog.model import Embedding, default_of, embedding_of, renamed_from
from omnigraph.schema.build import catalog_from_text

PERSON = catalog_from_text(
    'node P @rename_from("Q") { a: I32 @default(3)  t: String  v: Vector(2) @embed(t, model="m")'
    "  w: Vector(2)? @embed(t) }"
).nodes[0]
A, T, V, W = PERSON.properties


def test_meanings_are_read_from_the_catalog() -> None:
    assert default_of(A) == 3
    assert default_of(T) is None
    assert embedding_of(V) == Embedding("t", "m")
    assert embedding_of(W) == Embedding("t", None)
    assert embedding_of(T) is None
    assert renamed_from(PERSON.annotations) == "Q"
    assert renamed_from(A.annotations) is None

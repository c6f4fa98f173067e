"""Blob properties are Lance blob v2 on disk and plain bytes to callers."""

from __future__ import annotations

import lance

from omnigraph.graph.open import init
from omnigraph_testing.invariants import assert_at_rest

SCHEMA = "node Photo { name: String @key\n bytes: Blob?\n note: String? }"


def test_blobs_round_trip_through_insert_update_and_time_travel(uri: str) -> None:
    graph = init(uri, SCHEMA)
    large = b"x" * 300_000
    first = graph.apply({"Photo": {"insert": [{"name": "a", "bytes": large}, {"name": "b"}]}})
    graph.apply({"Photo": {"upsert": [{"name": "a", "bytes": b"small"}]}})
    rows = {r["name"]: r["bytes"] for r in graph.read("Photo").to_pylist()}
    assert rows == {"a": b"small", "b": None}
    assert first.commit is not None
    before = graph.read("Photo", at=first.commit.graph_commit_id, ids=["a"]).to_pylist()
    assert before[0]["bytes"] == large
    assert graph.apply({"Photo": {"upsert": [{"name": "a", "bytes": b"small"}]}}).commit is None
    location = next(iter(graph.snapshot().tables.values())).location
    stored = lance.dataset(f"{uri}/{location}").schema.field("bytes").type
    assert "lance.blob.v2" in str(stored)
    graph.optimize()
    assert {r["name"]: r["bytes"] for r in graph.read("Photo").to_pylist()} == rows
    assert_at_rest(graph)

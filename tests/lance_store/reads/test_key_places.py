"""Lookups that go straight to rows: their hashes, and when a thread reads the places of keys."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.lance_store.advance import advance
from omnigraph.lance_store.reads import key_places
from omnigraph.lance_store.reads.key_places import hashes_of, rows_by_key, settle
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.store import Store

ROWS = 3000


def test_a_hash_depends_on_the_text_alone() -> None:
    texts = ["", "a", "b", "ab", "ba", "ä", "x" * 700, "x" * 701, None, ""]
    array = pa.array(texts, pa.string())
    alone = [int(hashes_of(pa.array([text], pa.string()))[0]) for text in texts]
    assert hashes_of(array).tolist() == alone
    assert hashes_of(array.slice(3, 4)).tolist() == alone[3:7]
    assert len(set(alone)) == len(set(texts)) - 1, "null and the empty text hold no byte"


def test_the_places_of_a_large_file_are_read_after_some_lookups(store: Store, rows) -> None:
    at = rows.create(**{f"i{n}": n for n in range(ROWS)})
    dataset = store.open(at)
    asked = pa.array(["i7", "nothing"])
    for _ in range(key_places._FEWEST_LOOKUPS):
        assert rows_by_key(dataset, {"id": asked}, ["id", "n"]) is None
    settle()
    found = rows_by_key(dataset, {"id": asked}, ["n"])
    assert found is not None
    assert found.to_pylist() == [{"n": 7, "_rowaddr": 7}]
    assert found.schema == find_rows(dataset, pa.array(["x"] * 20), ["n"]).select([1, 2]).schema


def test_rows_with_the_same_hash_are_not_taken_for_each_other(
    store: Store, rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_places, "hashes_of", lambda texts: hashes_of(texts) * 0)
    dataset = store.open(rows.create(**{f"j{n}": n for n in range(ROWS)}))
    for _ in range(key_places._FEWEST_LOOKUPS):
        find_rows(dataset, pa.array(["j9"]), ["n"])
    settle()
    found = rows_by_key(dataset, {"id": pa.array(["j9"])}, ["n"])
    assert found is not None
    assert found.column("n").to_pylist() == [9]


def test_deletes_of_another_process_are_seen(store: Store, rows) -> None:
    at = rows.create(**{f"k{n}": n for n in range(ROWS)})
    for _ in range(key_places._FEWEST_LOOKUPS):
        find_rows(store.open(at), pa.array(["k5"]))
    settle()
    after = advance(store, rows.delete(at, "k5", "k6"))
    key_places._more_deleted.clear()
    for _ in range(key_places._FEWEST_LOOKUPS):
        assert find_rows(store.open(after), pa.array(["k5", "k8"]), ["n"])["n"].to_pylist() == [8]
    settle()
    found = rows_by_key(store.open(after), {"id": pa.array(["k5", "k8"])}, ["n"])
    assert found is not None
    assert found.to_pylist() == [{"n": 8, "_rowaddr": 8}]
    before = rows_by_key(store.open(at), {"id": pa.array(["k5", "k8"])}, ["n"])
    assert before is not None
    assert before.column("n").to_pylist() == [5, 8]

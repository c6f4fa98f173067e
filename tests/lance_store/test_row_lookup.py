from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.lance_store import row_lookup
from omnigraph.lance_store.row_lookup import addresses_by_fragment, find_rows
from omnigraph.lance_store.store import Store

STRANGE = ["plain", "it's", "''", '"quoted"', "a\\b", "`tick`", "x') OR ('1'='1", "ä", "", "%"]


@pytest.mark.parametrize("largest", [2000, 0])
def test_strange_ids_are_data(
    store: Store, rows, monkeypatch: pytest.MonkeyPatch, largest: int
) -> None:
    monkeypatch.setattr(row_lookup, "_LARGEST_IN_LIST", largest)
    at = rows.create(**{i: n for n, i in enumerate(STRANGE)})
    for number, entity_id in enumerate(STRANGE):
        found = find_rows(store.open(at), pa.array([entity_id]), ["n"])
        assert found["id"].to_pylist() == [entity_id]
        assert found["n"].to_pylist() == [number]
    assert find_rows(store.open(at), pa.array(["x", "it''s", "_"])).num_rows == 0


@pytest.mark.parametrize("largest", [2000, 0])
def test_lookup_gives_place_and_columns(
    store: Store, rows, monkeypatch: pytest.MonkeyPatch, largest: int
) -> None:
    monkeypatch.setattr(row_lookup, "_LARGEST_IN_LIST", largest)
    at = rows.create(a=1, b=2)
    found = find_rows(store.open(at), pa.array(["b", "none", "b"]), ["n", "id"])
    assert found.column_names == ["id", "n", "_rowid", "_rowaddr"]
    assert found["n"].to_pylist() == [2], "once, however often it is asked for"


def test_nothing_asked_nothing_there(store: Store, rows) -> None:
    full, empty = rows.create("full", a=1), rows.create("empty")
    for found in (
        find_rows(store.open(full), pa.array([], pa.string()), ["n"]),
        find_rows(store.open(empty), pa.array(["a"]), ["n"]),
    ):
        assert found.num_rows == 0
        assert found.schema.names == ["id", "n", "_rowid", "_rowaddr"]
        assert found.schema.field("_rowaddr").type == pa.uint64()


@given(st.lists(st.tuples(st.integers(0, 2**31), st.integers(0, 2**32 - 1)), unique=True))
def test_addresses_are_grouped_by_fragment(pairs: list[tuple[int, int]]) -> None:
    addresses = pa.array([(f << 32) | o for f, o in pairs], pa.uint64())
    grouped = list(addresses_by_fragment(addresses))
    assert [f for f, _ in grouped] == sorted({f for f, _ in pairs})
    assert sorted((f, o) for f, offsets in grouped for o in offsets) == sorted(pairs)
    assert all(offsets == sorted(offsets) for _, offsets in grouped)

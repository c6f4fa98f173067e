from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.lance_store.advance import advance
from omnigraph.lance_store.reads import row_lookup
from omnigraph.lance_store.reads.filters import have_literals
from omnigraph.lance_store.reads.row_lookup import (
    addresses_by_fragment,
    find_candidates,
    find_rows,
    find_sorted,
)
from omnigraph.lance_store.store import Store

STRANGE = ["plain", "it's", "''", '"quoted"', "a\\b", "`tick`", "x') OR ('1'='1", "ä", "", "%"]


@pytest.mark.parametrize("largest", [2000, 0])
def test_strange_ids_are_data(
    store: Store, rows, monkeypatch: pytest.MonkeyPatch, largest: int
) -> None:
    monkeypatch.setattr(row_lookup, "LONGEST_LIST", largest)
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
    monkeypatch.setattr(row_lookup, "LONGEST_LIST", largest)
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


LETTERS = st.sampled_from("abcdefgh")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    stored=st.lists(LETTERS, min_size=1, unique=True),
    deleted=st.sets(LETTERS),
    rewritten=st.sets(LETTERS),
    sought=st.sets(st.sampled_from("abcdefghi")).map(sorted),
    longest=st.sampled_from((0, 1, 2000)),
    scanned=st.sampled_from((0, 1, 4)),
)
def test_sorted_ids_are_found_in_every_way(
    store: Store,
    rows,
    stored: list[str],
    deleted: set[str],
    rewritten: set[str],
    sought: list[str],
    longest: int,
    scanned: int,
) -> None:
    """By the index, by a scan, and in the fragments that are younger than another version."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_lookup, "LONGEST_LIST", longest)
        patch.setattr(row_lookup, "_SCANNED_ROWS_PER_ID", scanned)
        first = at = rows.create(str(uuid4()), **{i: n for n, i in enumerate(stored)})
        gone = [i for i in stored if i in deleted]
        if gone:
            at = advance(store, rows.delete(at, *gone))
        content = rows.read(at)
        changed = {i: 100 + n for i, n in content.items() if i in rewritten}
        if changed:
            at = advance(store, rows.rewrite(at, **changed))
        content |= changed
        ids, dataset = pa.array(sought, pa.string()), store.open(at)
        wanted = [{"id": i, "n": content[i]} for i in sought if i in content]
        places = find_rows(dataset, ids).select(["id", "_rowid", "_rowaddr"]).to_pylist()
        for since in (None, store.open(first)):
            found = find_sorted(dataset, ids, ["id", "n"], since)
            assert found.select(["id", "n"]).to_pylist() == wanted
            located = found.select(["id", "_rowid", "_rowaddr"]).to_pylist()
            assert located == sorted(places, key=lambda row: row["id"])


MOMENTS = [-62135596800000, -9223372036855, -1, 0, 1, 1700000000123, 9223372036855, 253402300799999]
CASES = {
    "unsigned": pa.array([0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1], pa.uint64()),
    "integers": pa.array([-(2**63), 1 - 2**63, -1, 0, 2**63 - 2, 2**63 - 1]),
    "moments": pa.array(MOMENTS).cast(pa.timestamp("ms")),
    "doubles": pa.array([0.0, -0.0, 0.1, 5e-324, 1e22, 1e300, -1 / 3, 123456789.12345679]),
    "floats": pa.array([0.0, -0.0, 0.1, 1e-45, 1e22, 3.4028234663852886e38, -1 / 3], pa.float32()),
}


@pytest.mark.parametrize("indexed", [False, True], ids=["scanned", "indexed"])
@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_candidates_are_found_by_exact_values(
    tmp_path: Path, values: pa.Array, indexed: bool
) -> None:
    dataset = lance.write_dataset(pa.table({"v": values}), tmp_path / "t.lance")
    if indexed:
        dataset.create_scalar_index("v", "BTREE")
    for number, value in enumerate(values):
        one = values.slice(number, 1)
        found = find_candidates(dataset, {"v": one}, ["v"]).column("v").to_pylist()
        assert value.as_py() in found
        if have_literals(one):
            assert {*found} == {value.as_py()}, "both zeros are one value"
        else:
            assert len(found) == len(values), "left to the caller to tell apart"


@given(st.lists(st.tuples(st.integers(0, 2**31), st.integers(0, 2**32 - 1)), unique=True))
def test_addresses_are_grouped_by_fragment(pairs: list[tuple[int, int]]) -> None:
    addresses = pa.array([(f << 32) | o for f, o in pairs], pa.uint64())
    grouped = list(addresses_by_fragment(addresses))
    assert [f for f, _ in grouped] == sorted({f for f, _ in pairs})
    assert sorted((f, o) for f, offsets in grouped for o in offsets) == sorted(pairs)
    assert all(offsets.tolist() == sorted(offsets) for _, offsets in grouped)

"""Staged writes move nothing; committed ones change exactly what they say."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.lance_store.advance import advance
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.staging.stage import RowEdit, stage_edit, stage_overwrite
from omnigraph.lance_store.store import DatasetVersion, Store


def done(store: Store, staged) -> DatasetVersion:
    result = advance(store, staged)
    assert isinstance(result, DatasetVersion)
    assert result.version == staged.result_version
    assert store.open(result).count_rows() == staged.row_count
    return result


def test_staging_moves_nothing(store: Store, rows) -> None:
    at = rows.create(a=1, b=2)
    for staged in (
        rows.append(at, c=3),
        rows.rewrite(at, a=10),
        rows.delete(at, "a"),
        stage_overwrite(store, at, rows.table({"z": 1})),
    ):
        assert int(store.open_head(at.location, None).version) == at.version
        assert staged.at == at
        assert staged.uuid
    assert rows.read(at) == {"a": 1, "b": 2}


def test_append_rewrite_delete_and_overwrite(store: Store, rows) -> None:
    at = rows.create(a=1, b=2)
    at = done(store, rows.append(at, c=3))
    assert rows.read(at) == {"a": 1, "b": 2, "c": 3}
    at = done(store, rows.rewrite(at, c=30, a=10))
    assert rows.read(at) == {"a": 10, "b": 2, "c": 30}
    at = done(store, rows.delete(at, "a", "b"))
    assert rows.read(at) == {"c": 30}
    at = done(store, rows.delete(at, "c"))
    assert rows.read(at) == {}
    at = done(store, rows.append(at, d=4))
    at = done(store, stage_overwrite(store, at, rows.table({"z": 1})))
    assert rows.read(at) == {"z": 1}


def test_all_three_in_one_version(store: Store, rows) -> None:
    at = rows.create(a=1, b=2, c=3)
    stored = find_rows(store.open(at), pa.array(["a", "b"])).sort_by("id")
    edit = RowEdit(
        written=rows.table({"a": 10, "new": 4}),
        rewritten=stored.slice(0, 1),
        deleted=stored.slice(1, 1),
    )
    after = done(store, stage_edit(store, at, edit))
    assert after.version == at.version + 1
    assert rows.read(after) == {"a": 10, "c": 3, "new": 4}
    assert rows.read(at) == {"a": 1, "b": 2, "c": 3}, "the older version is still there"


def test_the_index_stays_right(store: Store, rows) -> None:
    """Rewritten and deleted rows are never found by their old place."""
    at = rows.create(**{f"k{i}": i for i in range(50)})
    at = done(store, rows.rewrite(at, k7=700))
    at = done(store, rows.delete(at, "k8"))
    at = done(store, rows.append(at, extra=1))
    found = find_rows(store.open(at), pa.array(["k7", "k8", "extra"]), ["n"])
    assert dict(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True)) == {
        "k7": 700,
        "extra": 1,
    }

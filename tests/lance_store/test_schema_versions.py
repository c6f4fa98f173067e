"""Versions that are only metadata of a schema, and what they take from the format of Lance."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.lance_store.dataset_branches import create_branch, create_dataset
from omnigraph.lance_store.dataset_files import version_file
from omnigraph.lance_store.schema_versions import SchemaVersions
from omnigraph.lance_store.store import DatasetVersion, Store, head_version

PLACE = "heads"
SCHEMA = pa.schema([pa.field("object_id", pa.string())], metadata={"a": "first", "b": "same"})
NEXT = {b"a": "zweite \N{LATIN SMALL LETTER SHARP S}".encode(), b"b": b"same"}


@pytest.fixture
def first(store: Store) -> DatasetVersion:
    return create_dataset(store, PLACE, SCHEMA.empty_table())


def like(store: Store, at: DatasetVersion) -> SchemaVersions:
    found = SchemaVersions.like(store, at)
    assert found is not None
    return found


def after(at: DatasetVersion, steps: int = 1) -> DatasetVersion:
    return replace(at, version=at.version + steps)


def test_lance_reads_the_version_and_keeps_the_earlier_one(
    store: Store, first: DatasetVersion
) -> None:
    assert like(store, first).put(store, after(first), NEXT)
    head = store.open_head(PLACE, None)
    assert head.version == after(first).version
    assert head.schema.metadata == NEXT
    assert head.schema.names == SCHEMA.names
    assert head.count_rows() == 0
    assert head.has_stable_row_ids
    assert store.open(first).schema.metadata == SCHEMA.metadata
    moments = [each["timestamp"] for each in head.versions()]
    assert moments == sorted(moments)
    assert head.read_transaction(head.version) is None


def test_every_version_can_be_made_like_any_other(store: Store, first: DatasetVersion) -> None:
    from_lance = like(store, first)
    assert from_lance.put(store, after(first), NEXT)
    from_us = like(store, after(first))
    assert from_us.common == from_lance.common
    assert from_us.put(store, after(first, 2), {b"a": b"third"})
    assert store.open_head(PLACE, None).schema.metadata == {b"a": b"third"}


def test_a_number_is_taken_once(store: Store, first: DatasetVersion) -> None:
    versions = like(store, first)
    assert versions.put(store, after(first), NEXT)
    assert not versions.put(store, after(first), {b"a": b"late"})
    assert store.open_head(PLACE, None).schema.metadata == NEXT


def test_a_commit_of_lance_and_a_put_exclude_each_other(
    store: Store, first: DatasetVersion
) -> None:
    """A release before this one makes versions with Lance."""
    before = store.open(first)
    overwrite = lance.LanceOperation.Overwrite(SCHEMA.with_metadata({"a": "lance"}), [])
    assert like(store, first).put(store, after(first), NEXT)
    with pytest.raises(OSError, match="conflict"):
        lance.LanceDataset.commit(
            before, lance.Transaction(first.version, overwrite), max_retries=0
        )
    made = after(first)
    lance.LanceDataset.commit(
        store.open(made), lance.Transaction(made.version, overwrite), max_retries=0
    )
    assert not like(store, first).put(store, after(made), NEXT)
    assert head_version(before) == after(made).version


@pytest.mark.parametrize("hint", [1, 3, 99])
def test_the_version_that_the_hint_of_lance_names_does_not_matter(
    store: Store, first: DatasetVersion, hint: int
) -> None:
    """Commits of Lance write the hint, and puts leave it as it is."""
    versions = like(store, first)
    made = [after(first, steps) for steps in range(1, 6)]
    for at in made:
        assert versions.put(store, at, NEXT)
    folder = Path(store.dataset_uri(PLACE, None), "_versions")
    (folder / "latest_version_hint.json").write_text(json.dumps({"version": hint}))
    store.files.delete_many([version_file(at) for at in (first, *made[:2])])
    newest = made[-1].version
    assert head_version(store.open(made[2])) == newest
    assert lance.dataset(store.dataset_uri(PLACE, None)).version == newest
    for based_on, lands in ((made[2], False), (made[-1], True)):
        overwrite = lance.Transaction(based_on.version, lance.LanceOperation.Overwrite(SCHEMA, []))
        with nullcontext() if lands else pytest.raises(OSError, match="conflict"):
            lance.LanceDataset.commit(store.open(based_on), overwrite, max_retries=0)


def test_rows_and_columns_of_an_older_version_stay_there(store: Store) -> None:
    """Formats before 4 kept the state in rows."""
    rows = pa.table({"object_id": ["x"], "metadata": ["y"]})
    first = create_dataset(store, PLACE, rows)
    assert like(store, first).put(store, after(first), NEXT)
    head = store.open_head(PLACE, None)
    assert head.count_rows() == 0
    assert head.get_fragments() == []
    assert head.to_table().num_rows == 0
    assert head.schema.metadata == NEXT
    assert store.open(first).to_table().to_pylist() == rows.to_pylist()


def test_a_branch_is_made_from_such_a_version_and_has_its_own(
    store: Store, first: DatasetVersion
) -> None:
    made = after(first)
    assert like(store, first).put(store, made, NEXT)
    forked = create_branch(store, made, "twig")
    assert store.open(forked).schema.metadata == NEXT
    assert like(store, forked).put(store, after(forked), {b"a": b"branch"})
    assert store.open_head(PLACE, "twig").schema.metadata == {b"a": b"branch"}
    assert store.open_head(PLACE, None).schema.metadata == NEXT


def test_a_version_that_was_removed_is_no_example(store: Store, first: DatasetVersion) -> None:
    store.files.delete(version_file(first))
    assert SchemaVersions.like(store, first) is None

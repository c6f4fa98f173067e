"""Strictness: what Lance would rebase silently must fail here, and our own success be known."""

from __future__ import annotations

import lance
import pytest
from lance import LanceDataset, LanceOperation
from lance.commit import CommitConflictError

from omnigraph.errors import StorageFailure
from omnigraph.lance_store import advance as module
from omnigraph.lance_store.advance import HeadMoved, advance, restore, tag_version, transaction_at
from omnigraph.lance_store.staging.stage import stage_overwrite
from omnigraph.lance_store.store import DatasetVersion, Store, head_version
from omnigraph.values.indexes import IndexKind, IndexSpec
from omnigraph_testing.graph_helpers import staged_indexes

ID_INDEX = (IndexSpec("id", IndexKind.SORTED),)


def head(store: Store, at: DatasetVersion) -> int:
    return int(store.open_head(at.location, at.branch).version)


EDITS = {
    "append": lambda rows, at: rows.append(at, x=1),
    "rewrite": lambda rows, at: rows.rewrite(at, a=10),
    "delete": lambda rows, at: rows.delete(at, "a"),
    "delete all": lambda rows, at: rows.delete(at, "a", "b"),
    "overwrite": lambda rows, at: stage_overwrite(rows.store, at, rows.table({"z": 1})),
}


@pytest.mark.parametrize("first", EDITS)
@pytest.mark.parametrize("second", EDITS)
def test_of_two_writes_on_one_version_one_wins(store: Store, rows, first: str, second: str) -> None:
    """The sentinel fragment makes every pair conflict; an Overwrite is strict by itself."""
    at = rows.create(a=1, b=2)
    one, other = EDITS[first](rows, at), EDITS[second](rows, at)
    won = advance(store, one)
    assert isinstance(won, DatasetVersion)
    content = rows.read(won)
    lost = advance(store, other)
    assert lost == HeadMoved(at, won.version, landed_on_top=False)
    assert head(store, at) == won.version
    assert rows.read(won) == content


def test_plain_lance_would_rebase(store: Store, rows) -> None:
    """The trap itself: without the sentinel an append lands on top of what it never saw."""
    at = rows.create(a=1)
    uri = store.dataset_uri(at.location, None)
    stale = lance.dataset(uri)
    staged = lance.fragment.write_fragments(
        rows.table({"late": 9}), stale, mode="append", return_transaction=True
    )
    lance.write_dataset(rows.table({"between": 5}), uri, mode="append")
    landed = LanceDataset.commit(stale, staged, max_retries=0)
    assert landed.version == at.version + 2
    assert landed.count_rows() == 3


def test_a_foreign_append_does_not_slip_under_ours(store: Store, rows) -> None:
    """Plain appends do not conflict with the sentinel: the version check catches them."""
    at = rows.create(a=1)
    staged = rows.append(at, mine=1)
    uri = store.dataset_uri(at.location, None)
    lance.write_dataset(rows.table({"orphan": 5}), uri, mode="append")
    moved = advance(store, staged)
    assert isinstance(moved, HeadMoved)
    restored = restore(store, at)
    assert rows.read(restored) == {"a": 1}, "neither the orphan nor what landed on it stays"


def test_two_first_writes_on_an_empty_dataset(store: Store, rows) -> None:
    """No sentinel there: the second lands on top, is told so, and is restored away."""
    at = rows.create()
    one, other = rows.append(at, x=1), rows.append(at, y=1)
    won = advance(store, one)
    assert isinstance(won, DatasetVersion)
    assert isinstance(advance(store, other), HeadMoved)
    restored = restore(store, won)
    assert rows.read(restored) == {"x": 1}


@pytest.mark.parametrize("name", [*EDITS, "index", "compaction"])
def test_a_restore_fences_what_was_staged_before(store: Store, rows, name: str) -> None:
    at = rows.create(a=1, b=2)
    at = advance(store, rows.append(at, c=3))
    if name == "index":
        staged = staged_indexes(store, at, ID_INDEX)
    elif name == "compaction":
        staged = rows.compact(at)
    else:
        staged = EDITS[name](rows, at)
    assert staged is not None
    fenced = restore(store, at)
    assert fenced.version == at.version + 1
    assert isinstance(advance(store, staged), HeadMoved)
    assert rows.read(DatasetVersion(at.location, None, head(store, at))) == rows.read(at)


def test_restore_brings_rows_back_and_keeps_ids(store: Store, rows) -> None:
    at = rows.create(a=1, b=2)
    before = rows.read(at, ("id", "_rowid"))
    advanced = advance(store, rows.delete(at, "a"))
    assert isinstance(advanced, DatasetVersion)
    restored = restore(store, at)
    assert restored.version == advanced.version + 1
    assert rows.read(restored, ("id", "_rowid")) == before
    again = advance(store, rows.append(restored, c=3))
    assert isinstance(again, DatasetVersion)
    assert rows.read(again, ("id", "_rowid"))["c"] not in before.values()


def test_committing_twice_is_recognised_not_repeated(store: Store, rows) -> None:
    """Lance would append the same transaction again; the uuid says that it landed."""
    at = rows.create(a=1)
    staged = rows.append(at, x=1)
    first = advance(store, staged)
    assert advance(store, staged) == first
    assert rows.read(first) == {"a": 1, "x": 1}
    assert transaction_at(store, first) == staged.uuid


def test_our_success_is_found_below_later_versions(store: Store, rows) -> None:
    at = rows.create(a=1)
    staged = rows.append(at, x=1)
    first = advance(store, staged)
    advance(store, rows.append(first, y=1))
    assert advance(store, staged) == first


def lose_answer(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    real = module._commit

    def commit(*arguments):
        real(*arguments)
        raise error

    monkeypatch.setattr(module, "_commit", commit)


@pytest.mark.parametrize("error", [OSError("connection reset"), CommitConflictError("conflict")])
def test_a_lost_answer_is_looked_up(
    store: Store, rows, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    at = rows.create(a=1)
    staged = rows.append(at, x=1)
    lose_answer(monkeypatch, error)
    result = advance(store, staged)
    assert result == DatasetVersion(at.location, None, at.version + 1)
    assert rows.read(result) == {"a": 1, "x": 1}


def test_a_refusal_without_movement_is_a_storage_failure(
    store: Store, rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = rows.create(a=1)
    staged = rows.append(at, x=1)

    def refuse(*arguments):
        raise OSError("the plug was pulled")

    monkeypatch.setattr(module, "_commit", refuse)
    with pytest.raises(StorageFailure, match="committing t: the plug was pulled"):
        advance(store, staged)
    assert head(store, at) == at.version


def test_handles_stay_at_their_version(store: Store, rows) -> None:
    at = rows.create(a=1)
    handle = store.open(at)
    after = advance(store, rows.append(at, x=1))
    assert handle.count_rows() == 1
    assert head_version(handle) == after.version
    assert store.open(after).count_rows() == 2


def test_the_transaction_of_a_compaction_is_unknown_not_an_error(store: Store, rows) -> None:
    at = rows.create(a=1)
    for number in range(3):
        at = advance(store, rows.append(at, **{f"x{number}": 1}))
    index = staged_indexes(store, at, ID_INDEX)
    at = advance(store, index)
    compaction = rows.compact(at)
    after = advance(store, compaction)
    assert isinstance(after, DatasetVersion)
    assert after.version == at.version + 2
    assert transaction_at(store, after) is None
    assert rows.read(after) == {"a": 1, "x0": 1, "x1": 1, "x2": 1}


def test_orphans_are_tagged_once(store: Store, rows) -> None:
    at = rows.create(a=1)
    orphan = advance(store, rows.append(at, x=1))
    tag_version(store, orphan, "orphan-1")
    tag_version(store, orphan, "orphan-1")
    tags = store.open_head(at.location, None).tags.list()
    assert [tags[name]["version"] for name in tags] == [orphan.version]


def test_a_restore_needs_no_conflict_to_win(store: Store, rows) -> None:
    """Restore never conflicts with what came before: callers guard it by their intent."""
    at = rows.create(a=1)
    dataset = store.open(at)
    advance(store, rows.append(at, x=1))
    restored = LanceDataset.commit(
        dataset, LanceOperation.Restore(at.version), read_version=at.version, max_retries=0
    )
    assert restored.version == at.version + 2

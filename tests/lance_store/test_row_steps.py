"""Versions that share a data file and hide a part of its rows: every way in which we read them.

Lance makes the first version, `row_steps` the others. These tests pin what it takes from the format
of Lance, so that a release of Lance that breaks it fails here.
"""

from __future__ import annotations

import datetime as dt

import lance
import pyarrow as pa
import pytest

from omnigraph.lance_store.advance import HeadMoved, advance, restore, transaction_at
from omnigraph.lance_store.dataset_branches import create_branch
from omnigraph.lance_store.dataset_files import lineages, needed_content, version_file
from omnigraph.lance_store.reads import recent_fragments
from omnigraph.lance_store.reads.row_lookup import find_recent_rows, find_rows
from omnigraph.lance_store.reads.scan import read_ids
from omnigraph.lance_store.row_steps import MOST_ROWS, RowSteps, advance_in_steps
from omnigraph.lance_store.store import DatasetVersion, Store, head_version
from omnigraph.values.indexes import IndexKind, IndexSpec
from omnigraph_testing.graph_helpers import staged_indexes

ID_INDEX = (IndexSpec("id", IndexKind.SORTED),)
COUNTS = (1, 2, 1, 3)
SHOWN = (1, 3, 4, 7)
NEW = {f"x{n}": n for n in range(SHOWN[-1])}


def shown_at(step: int, before: dict[str, int]) -> dict[str, int]:
    return before | dict(list(NEW.items())[: SHOWN[step]])


def take_steps(
    store: Store, rows, at: DatasetVersion, replaced: int | None = None, **first: int
) -> list[DatasetVersion]:
    """The versions of `NEW`; the rows in `first` are those of the replaced fragment."""
    shown = tuple(len(first) + count for count in SHOWN)
    steps = RowSteps(rows.table(first | NEW), shown, replaced)
    taken = list(advance_in_steps(store, at, steps))
    assert not any(isinstance(step, HeadMoved) for step in taken)
    assert len({step.fragment for step in taken}) == 1
    return [step.at for step in taken]


@pytest.fixture(params=["one fragment", "deleted rows", "indexed", "empty", "branch"])
def base(request: pytest.FixtureRequest, store: Store, rows) -> DatasetVersion:
    at = rows.create() if request.param == "empty" else rows.create(a=1, b=2, c=3)
    if request.param == "deleted rows":
        at = advance(store, rows.append(at, d=4, e=5))
        at = advance(store, rows.append(at, f=6))
        at = advance(store, rows.delete(at, "b", "f"))
    elif request.param == "indexed":
        at = advance(store, staged_indexes(store, at, ID_INDEX))
    elif request.param == "branch":
        at = create_branch(store, at, "side")
    return at


def test_every_read_of_every_version(store: Store, rows, base) -> None:
    before = rows.read(base)
    versions = take_steps(store, rows, base)
    assert [at.version - base.version for at in versions] == [1, 2, 3, 4]
    assert head_version(store.open(base)) == versions[-1].version
    # The second has no cache of this process.
    for opened in (store.open, lambda at: store.address(at).open()):
        for step, at in enumerate(versions):
            expected = shown_at(step, before)
            dataset = opened(at)
            dataset.validate()
            scanned = dataset.to_table().to_pydict()
            assert dict(zip(scanned["id"], scanned["n"], strict=True)) == expected
            assert dataset.count_rows() == len(expected)
            assert dataset.count_rows("n >= 3") == sum(n >= 3 for n in expected.values())
            assert set(read_ids(dataset)) == set(expected)
            found = find_rows(dataset, pa.array([*NEW, "a"]), ["n"])
            assert set(found["id"].to_pylist()) == set(expected) & {*NEW, "a"}
            assert all(
                dataset.to_table(filter=f"id = '{i}'").num_rows == (i in expected) for i in NEW
            )
            everything = dataset.to_table(with_row_id=True)
            by_row_id = dataset._take_rows(everything["_rowid"].to_pylist())
            assert by_row_id["id"].to_pylist() == everything["id"].to_pylist()
            assert dataset.take(range(len(expected))).num_rows == len(expected)
            recent = find_recent_rows(dataset, opened(base), pa.array([*NEW]), ["n"])
            assert set(recent["id"].to_pylist()) == set(NEW) & set(expected)
            fragment = dataset.get_fragments()[-1]
            assert fragment.count_rows() == SHOWN[step]
            assert fragment.physical_rows - fragment.num_deletions == SHOWN[step]


def test_a_process_that_looks_at_a_version_with_hidden_rows_first(store: Store, rows) -> None:
    """What it remembers of the data file is true for the later versions, too."""
    at = rows.create(a=1)
    at = advance(store, staged_indexes(store, at, ID_INDEX))
    for name in "bcd":
        at = advance(store, rows.append(at, **{name: 1}))
    versions = take_steps(store, rows, at)
    recent_fragments._held._entries.clear()
    recent_fragments._files.clear()
    wanted = pa.array(["x0", "x6"])
    assert find_rows(store.open(versions[0]), wanted)["id"].to_pylist() == ["x0"]
    assert sorted(find_rows(store.open(versions[-1]), wanted)["id"].to_pylist()) == ["x0", "x6"]


def test_row_ids_stay_from_step_to_step(store: Store, rows, base) -> None:
    versions = take_steps(store, rows, base)
    last = rows.read(versions[-1], ("id", "_rowid"))
    assert len(set(last.values())) == len(last)
    for at in (base, *versions):
        assert rows.read(at, ("id", "_rowid")).items() <= last.items()


def test_the_last_version_goes_on_as_any_other(store: Store, rows, base) -> None:
    before = rows.read(base)
    at = take_steps(store, rows, base)[-1]
    expected = before | NEW
    assert store.open(at).get_fragments()[-1].num_deletions == 0
    at = advance(store, rows.append(at, y=9))
    at = advance(store, rows.rewrite(at, x2=20))
    at = advance(store, rows.delete(at, "x0"))
    expected = {k: v for k, v in (expected | {"y": 9, "x2": 20}).items() if k != "x0"}
    assert rows.read(at) == expected
    indexed = staged_indexes(store, at, ID_INDEX)
    at = advance(store, indexed)
    at = advance(store, rows.compact(at))
    assert rows.read(at) == expected
    found = find_rows(store.open(at), pa.array([*expected]), ["n"])
    assert dict(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True)) == expected
    assert len(rows.read(at, ("id", "_rowid"))) == len(expected)


@pytest.mark.parametrize("step", range(len(SHOWN)))
def test_a_branch_of_a_version_goes_on_as_any_other(store: Store, rows, base, step: int) -> None:
    before = rows.read(base)
    versions = take_steps(store, rows, base)
    at = create_branch(store, versions[step], "later")
    expected = shown_at(step, before)
    assert rows.read(at) == expected
    at = advance(store, rows.append(at, y=9))
    at = advance(store, rows.rewrite(at, x0=20))
    assert rows.read(at) == (expected := expected | {"y": 9, "x0": 20})
    at = advance(store, staged_indexes(store, at, ID_INDEX))
    at = advance(store, rows.compact(at))
    assert rows.read(at) == expected
    assert set(find_rows(store.open(at), pa.array([*NEW]))["id"].to_pylist()) == (
        set(expected) & set(NEW)
    )


@pytest.mark.parametrize("step", range(len(SHOWN)))
def test_a_version_is_restored(store: Store, rows, base, step: int) -> None:
    before = rows.read(base)
    versions = take_steps(store, rows, base)
    at = restore(store, versions[step])
    assert at.version == versions[-1].version + 1
    at = advance(store, rows.append(at, y=9))
    assert rows.read(at) == shown_at(step, before) | {"y": 9}


def test_a_replaced_fragment_is_continued(store: Store, rows, base) -> None:
    before = rows.read(base)
    at = advance(store, rows.append(base, r=7, s=8))
    replaced = max(store.open(at).fragment_ids())
    fragments = len(store.open(at).fragment_ids())
    versions = take_steps(store, rows, at, replaced, r=7, s=8)
    for step, made in enumerate(versions):
        assert rows.read(made) == shown_at(step, before | {"r": 7, "s": 8})
        assert len(store.open(made).fragment_ids()) == fragments
    again = take_steps(store, rows, restore(store, at))
    assert rows.read(again[-1]) == before | {"r": 7, "s": 8} | NEW


def test_older_writers_are_refused(store: Store, rows) -> None:
    base = rows.create(a=1)
    stale = [rows.append(base, y=9)]
    versions = take_steps(store, rows, base)
    stale += [rows.append(at, z=9) for at in versions[:-1]]
    for staged in stale:
        outcome = advance(store, staged)
        assert outcome == HeadMoved(staged.at, versions[-1].version, landed_on_top=False)
    assert head_version(store.open(base)) == versions[-1].version


@pytest.mark.parametrize("taken", [0, 1, 2])
def test_a_version_that_another_writer_made_is_not_replaced(store: Store, rows, taken: int) -> None:
    """As after a restore, while the writer was stopped."""
    base = rows.create(a=1)
    steps = advance_in_steps(store, base, RowSteps(rows.table(NEW), SHOWN))
    made = [next(steps).at for _ in range(taken + 1)]
    other = restore(store, base)
    assert other.version == made[-1].version + 1
    outcome = next(steps)
    assert outcome == HeadMoved(made[-1], other.version, landed_on_top=False)
    assert next(steps, None) is None
    assert rows.read(other) == {"a": 1}
    assert head_version(store.open(base)) == other.version


def test_a_head_that_moved_before(store: Store, rows) -> None:
    base = rows.create(a=1)
    other = advance(store, rows.append(base, y=9))
    (outcome,) = advance_in_steps(store, base, RowSteps(rows.table(NEW), SHOWN))
    assert outcome == HeadMoved(base, other.version, landed_on_top=False)


def test_what_is_left_of_a_killed_writer_is_in_the_way_of_none(store: Store, rows) -> None:
    base = rows.create(a=1)
    steps = advance_in_steps(store, base, RowSteps(rows.table(NEW), SHOWN))
    first = next(steps).at
    store.files.delete(version_file(first))
    store.release()
    versions = take_steps(store, rows, base)
    assert [rows.read(at) for at in versions] == [shown_at(s, {"a": 1}) for s in range(4)]


def test_the_files_of_every_version_are_known(store: Store, rows, base) -> None:
    versions = take_steps(store, rows, base)
    files = lineages(base.location, store.files.walk(base.location))[base.branch]
    for step, at in enumerate(versions):
        needed = needed_content(store, at)
        own = {name for name in needed if name in files.content}
        hidden = {name for name in own if "/_deletions/" in name} - needed_content(store, base)
        assert len(hidden) == (step < len(SHOWN) - 1)
        assert at.version in files.versions
    assert not needed_content(store, versions[-1]) & {
        name for at in versions[:-1] for name in needed_content(store, at) if "_deletions/" in name
    } - needed_content(store, base)


def test_cleanup_of_lance_between_them(store: Store, rows) -> None:
    base = rows.create(a=1)
    versions = take_steps(store, rows, base)
    uri = store.dataset_uri(base.location, None)
    lance.dataset(uri).tags.create("kept", versions[1].version)
    lance.dataset(uri).cleanup_old_versions(
        older_than=dt.timedelta(0), error_if_tagged_old_versions=False
    )
    after = Store(store.location)
    assert {v["version"] for v in lance.dataset(uri).versions()} == {
        versions[1].version,
        versions[-1].version,
    }
    read = after.open(versions[1]).to_table().to_pydict()
    assert dict(zip(read["id"], read["n"], strict=True)) == shown_at(1, {"a": 1})
    assert after.open(versions[-1]).count_rows() == 1 + len(NEW)


def test_all_versions_name_one_transaction(store: Store, rows) -> None:
    base = rows.create(a=1)
    versions = take_steps(store, rows, base)
    assert len({transaction_at(store, at) for at in versions}) == 1
    assert transaction_at(store, versions[0]) not in (None, transaction_at(store, base))


def test_as_many_rows_as_one_deletion_file_takes(store: Store, rows) -> None:
    base = rows.create(a=1)
    many = {f"m{n:05d}": n for n in range(MOST_ROWS)}
    steps = RowSteps(rows.table(many), (1, MOST_ROWS - 1, MOST_ROWS))
    versions = [step.at for step in advance_in_steps(store, base, steps)]
    counts = [store.open(at).count_rows() for at in versions]
    assert counts == [2, MOST_ROWS, MOST_ROWS + 1]
    assert rows.read(versions[1]) == {"a": 1} | dict(list(many.items())[:-1])

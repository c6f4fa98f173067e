"""Deletion files that we write: Lance hides their rows, and both continue files of each other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.lance_store.advance import advance
from omnigraph.lance_store.dataset_branches import create_branch
from omnigraph.lance_store.dataset_files import lineages, needed_content
from omnigraph.lance_store.row_steps import RowSteps, advance_in_steps
from omnigraph.lance_store.staging import deletion_files
from omnigraph.lance_store.staging.deletion_files import bitmap_of, rows_of_bitmap
from omnigraph.lance_store.staging.stage import RowEdit, stage_edit
from omnigraph.lance_store.store import DatasetVersion, Store

MANY = 200_000
DELETES = {
    "one row": [5],
    "a list": range(0, 9000, 3),
    "a full list and the next row": range(4097),
    "two groups": [1, 65_535, 65_536, 131_072],
    "most rows": range(10, MANY),
    "a whole group": range(65_536, 131_072),
}


@pytest.fixture
def many(store: Store, rows) -> DatasetVersion:
    return rows.create(**{f"r{n}": n for n in range(MANY)})


def gone_rows(numbers) -> RowEdit:
    addresses = pa.array(numbers, pa.uint64())
    return RowEdit(None, None, pa.table({"_rowaddr": addresses}))


def forget() -> None:
    """As another process, which has read no deletion file."""
    deletion_files._rows.clear()


def shown(store: Store, at: DatasetVersion) -> np.ndarray:
    """As another process sees it."""
    return store.address(at).open().to_table(columns=["n"]).column("n").to_numpy()


@pytest.mark.parametrize("numbers", DELETES.values(), ids=DELETES)
def test_lance_hides_exactly_these_rows(store: Store, many, numbers) -> None:
    staged = stage_edit(store, many, gone_rows(numbers))
    at = advance(store, staged)
    assert shown(store, at).tolist() == sorted(set(range(MANY)) - set(numbers))
    assert store.open(at).count_rows() == staged.row_count == MANY - len(numbers)
    store.open(at).validate()


@pytest.mark.parametrize("first", DELETES.values(), ids=DELETES)
@pytest.mark.parametrize("by_lance", [True, False], ids=["by Lance", "by us"])
@pytest.mark.parametrize("known", [True, False], ids=["known", "read"])
def test_a_deletion_file_is_continued(store: Store, many, first, by_lance, known) -> None:
    if by_lance:
        dataset = store.open_head(many.location, None)
        dataset.delete(f"n IN ({','.join(map(str, first))})")
        at = DatasetVersion(many.location, None, int(dataset.version))
    else:
        at = advance(store, stage_edit(store, many, gone_rows(first)))
    if not known:
        forget()
    left = sorted(set(range(MANY)) - set(first))
    more = left[:: max(1, len(left) // 100)][:-1]
    after = advance(store, stage_edit(store, at, gone_rows(more)))
    assert shown(store, after).tolist() == sorted(set(left) - set(more))
    assert shown(store, at).tolist() == left


def test_lance_continues_our_deletion_file(store: Store, many) -> None:
    at = advance(store, stage_edit(store, many, gone_rows(range(5000))))
    dataset = store.open_head(at.location, None)
    dataset.delete("n < 6000")
    assert dataset.count_rows() == MANY - 6000


def test_a_fragment_without_a_row_goes(store: Store, rows) -> None:
    at = rows.create(a=1, b=2)
    at = advance(store, rows.append(at, c=3))
    at = advance(store, rows.delete(at, "a"))
    at = advance(store, rows.delete(at, "b"))
    assert rows.read(at) == {"c": 3}
    assert len(store.open(at).get_fragments()) == 1
    assert rows.read(advance(store, rows.delete(at, "c"))) == {}


def test_a_branch_deletes_inherited_rows(store: Store, rows) -> None:
    at = rows.create(a=1, b=2, c=3, d=4)
    at = advance(store, rows.delete(at, "a"))
    side = create_branch(store, at, "side")
    side = advance(store, rows.delete(side, "b"))
    assert rows.read(side) == {"c": 3, "d": 4}
    side = advance(store, rows.delete(side, "c"))
    forget()
    assert rows.read(advance(store, rows.delete(side, "d"))) == {}
    assert rows.read(side) == {"d": 4}
    assert rows.read(at) == {"b": 2, "c": 3, "d": 4}
    content = lineages(at.location, store.files.walk(at.location))
    present = {name for found in content.values() for name in found.content}
    assert needed_content(store, side) <= present


def test_rows_that_a_group_hides_are_counted(store: Store, rows) -> None:
    """Its deletion files have the same form."""
    at = rows.create(a=1)
    steps = RowSteps(rows.table({"b": 2, "c": 3, "d": 4}), (1, 2, 3))
    first, second, _ = (step.at for step in advance_in_steps(store, at, steps))
    assert rows.read(first) == {"a": 1, "b": 2}
    assert rows.read(second) == {"a": 1, "b": 2, "c": 3}


def test_a_file_that_is_not_what_the_manifest_says_is_left_to_lance(
    store: Store, many, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = advance(store, stage_edit(store, many, gone_rows([1, 2])))
    forget()
    monkeypatch.setattr(deletion_files, "rows_of_bitmap", lambda _: np.empty(0, np.uint64))
    after = advance(store, stage_edit(store, at, gone_rows([3])))
    assert shown(store, after).tolist() == [0, *range(4, MANY)]
    (fragment,) = store.open(after).get_fragments()
    assert fragment.metadata.num_deletions == 3


@pytest.mark.parametrize("seed", range(20))
def test_bitmaps_give_their_rows_back(seed: int) -> None:
    chance = np.random.default_rng(seed)
    numbers = chance.choice(3_000_000, chance.integers(1, 300_000), replace=False)
    offsets = np.unique(numbers // chance.integers(1, 40)).astype(np.uint64)
    again = rows_of_bitmap(bitmap_of(offsets))
    assert again is not None
    assert np.array_equal(again, offsets)


def test_another_form_of_bitmap_is_not_read() -> None:
    with_runs = (12347).to_bytes(4, "little") + bytes(20)
    assert rows_of_bitmap(with_runs) is None

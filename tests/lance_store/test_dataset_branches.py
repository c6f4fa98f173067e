from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import AlreadyExists, NotFound, StorageFailure
from omnigraph.lance_store.advance import advance
from omnigraph.lance_store.dataset_branches import create_branch, create_dataset, physical_name
from omnigraph.lance_store.staging.stage import stage_overwrite
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.values.clock import SYSTEM_CLOCK


def test_a_new_dataset_has_what_the_engine_relies_on(store: Store, rows) -> None:
    at = rows.create()
    dataset = store.open(at)
    assert dataset.has_stable_row_ids
    assert dataset.data_storage_version == "2.2"
    assert not dataset.schema.field("id").nullable
    assert [i.name for i in dataset.describe_indices()] == ["id_idx"]
    assert rows.read(at) == {}


def test_one_creator_wins(store: Store, rows) -> None:
    rows.create()
    with pytest.raises(AlreadyExists):
        rows.create()


def test_racing_creators(store: Store, rows) -> None:
    def create(number: int) -> str:
        try:
            create_dataset(store, "raced", rows.table({f"r{number}": number}))
        except AlreadyExists:
            return "lost"
        return f"r{number}"

    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(create, range(6)))
    winners = [o for o in outcomes if o != "lost"]
    assert len(winners) == 1
    head = store.open_head("raced", None)
    assert head.to_table()["id"].to_pylist() == winners


def test_branches_share_the_past_and_diverge(store: Store, rows) -> None:
    at = rows.create(a=1)
    fork = create_branch(store, at, "fork.1")
    assert fork == DatasetVersion("t", "fork.1", at.version)
    on_main = advance(store, rows.append(at, m=1))
    on_fork = advance(store, rows.append(fork, f=1))
    assert on_main.version == on_fork.version, "a version means nothing without its branch"
    assert rows.read(on_main) == {"a": 1, "m": 1}
    assert rows.read(on_fork) == {"a": 1, "f": 1}
    nested = create_branch(store, on_fork, "fork.2")
    after = advance(store, rows.rewrite(nested, a=5))
    assert rows.read(after) == {"a": 5, "f": 1}
    assert rows.read(on_fork) == {"a": 1, "f": 1}


def test_branch_of_an_older_version(store: Store, rows) -> None:
    at = rows.create(a=1)
    advance(store, rows.append(at, b=2))
    assert rows.read(create_branch(store, at, "old.1")) == {"a": 1}


def test_strictness_holds_on_branches_too(store: Store, rows) -> None:
    fork = create_branch(store, rows.create(a=1), "fork.1")
    one, other = rows.append(fork, x=1), rows.append(fork, y=1)
    assert isinstance(advance(store, one), DatasetVersion)
    assert not isinstance(advance(store, other), DatasetVersion)
    swap = create_branch(store, rows.create("m", a=1), "fork.1")
    first, second = (stage_overwrite(store, swap, rows.table({k: 1})) for k in "xy")
    assert isinstance(advance(store, first), DatasetVersion)
    assert not isinstance(advance(store, second), DatasetVersion)


def test_a_taken_branch_name_that_exists_is_the_branch(store: Store, rows) -> None:
    """Names are unique, so a conflict is the lost answer to our own creation."""
    at = rows.create(a=1)
    assert create_branch(store, at, "fork.1") == create_branch(store, at, "fork.1")


def test_branch_of_what_is_not_there(store: Store, rows) -> None:
    rows.create(a=1)
    with pytest.raises(StorageFailure):
        create_branch(store, DatasetVersion("t", None, 99), "fork.1")
    with pytest.raises(NotFound):
        create_branch(store, DatasetVersion("nowhere", None, 1), "fork.1")


@given(st.text(min_size=1, max_size=60))
def test_physical_names_are_always_good_for_lance(name: str) -> None:
    ulid = SYSTEM_CLOCK.new_ulid()
    physical = physical_name(name, ulid)
    assert re.fullmatch(r"[A-Za-z0-9_-]+\.[0-9A-Z]{26}", physical)
    assert physical.endswith(ulid)
    assert len(physical) <= 67

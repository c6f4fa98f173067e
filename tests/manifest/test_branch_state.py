from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from states import after, chain, first_state, pin, write

from omnigraph.errors import FormatTooNew, FormatUnknown
from omnigraph.manifest.branch_state import (
    CURRENT_FORMAT,
    BranchState,
    check_readable,
    read_stamp,
    read_state,
    state_to_schema,
)
from omnigraph.manifest.packed_commits import pack_commits, unpack_commits
from omnigraph.manifest.publication import Publication
from omnigraph.manifest.records import HistorySegment
from omnigraph.values.identifiers import node_table


def rich_state():
    state = chain(5, keys={2: "key"})
    state = after(state, Publication("i", 1, cancels="dead-intent"))
    state = after(state, Publication("i", 1, dropped=(node_table("B"),)))
    segment = HistorySegment("seg", 1, 64, 10, 20, keyed=True)
    return replace(state, history=(segment,))


def read_again(state: BranchState) -> BranchState:
    return read_state(state.version, state_to_schema(state, CURRENT_FORMAT), no_rows)


def no_rows() -> pa.Table:
    raise AssertionError("the state is in the schema")


@pytest.mark.parametrize("deleted", [False, True])
def test_the_schema_holds_the_whole_state(deleted: bool) -> None:
    state = replace(rich_state(), deleted=deleted)
    again = read_again(state)
    assert again == state
    assert [s.commit for s in again.commits] == [s.commit for s in state.commits]
    assert read_stamp(state_to_schema(state, 7)) == 7


def test_commits_are_small_because_they_are_alike() -> None:
    state = chain(50)
    text = sum(len(stored.text) for stored in state.commits)
    (packed,) = [v for k, v in state_to_schema(state, 7).metadata.items() if k.endswith(b"head")]
    assert len(packed) < text / 4


def test_pins_of_forks_keep_their_owner() -> None:
    state = first_state("A")
    forked = replace(pin("A"), branch="b.01", owner="b.02", version=7)
    state = replace(state, tables={forked.key: forked})
    assert read_again(state).tables[forked.key] == forked


def test_a_text_with_anything_in_it_survives() -> None:
    state = first_state()
    draft = write(state, "c1", "A")
    assert draft.commit is not None
    spoken = replace(draft.commit, message='"quoted"\n\\ \u2028 \r\n\x00 ä 🜁', actor_id="")
    state = after(state, replace(draft, commit=spoken))
    again = read_again(state)
    assert again == state
    assert again.commits[-1].commit.message == spoken.message


def test_a_damaged_head_is_a_value_error() -> None:
    packed = pack_commits({"tables": []}, chain(3).commits)
    assert unpack_commits(packed)[1] == chain(3).commits
    size, _, text = packed.partition(" ")
    for damaged in ("", "x", text, f"9 {text}", f"{size} {text[:-8]}", f"{size} {'A' * 40}"):
        with pytest.raises(ValueError, match=r"."):
            unpack_commits(damaged)


def schema(stamp: str | None) -> pa.Schema:
    metadata = {} if stamp is None else {"omnigraph:format": stamp}
    return pa.schema([pa.field("x", pa.int64())], metadata=metadata)


def test_the_stamp_is_read() -> None:
    assert read_stamp(schema("12")) == 12


@pytest.mark.parametrize("stamp", [None, "", "x", "-1", "1.5", " 1"])
def test_anything_else_is_unknown(stamp: str | None) -> None:
    with pytest.raises(FormatUnknown, match="export"):
        read_stamp(schema(stamp))


def test_newer_is_refused_and_older_readable() -> None:
    check_readable(CURRENT_FORMAT)
    check_readable(CURRENT_FORMAT - 1)
    with pytest.raises(FormatTooNew, match="upgrade omnigraph first"):
        check_readable(CURRENT_FORMAT + 1)

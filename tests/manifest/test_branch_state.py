from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from states import after, chain, first_state, pin, write

from omnigraph.errors import FormatTooNew, FormatUnknown
from omnigraph.manifest.branch_state import (
    CURRENT_FORMAT,
    MANIFEST_SCHEMA,
    check_readable,
    read_stamp,
    state_from_rows,
    state_to_rows,
)
from omnigraph.manifest.publication import Publication
from omnigraph.manifest.records import HistorySegment
from omnigraph.values.identifiers import node_table


def rich_state():
    state = chain(5, keys={2: "key"})
    state = after(state, Publication("i", 1, cancels="dead-intent"))
    state = after(state, Publication("i", 1, dropped=(node_table("B"),)))
    segment = HistorySegment("seg", 1, 64, 10, 20, keyed=True)
    return replace(state, history=(segment,))


@pytest.mark.parametrize("deleted", [False, True])
def test_rows_hold_the_whole_state(deleted: bool) -> None:
    state = replace(rich_state(), deleted=deleted)
    again = state_from_rows(state.version, state_to_rows(state, CURRENT_FORMAT))
    assert again == state
    assert [s.commit for s in again.commits] == [s.commit for s in state.commits]


def test_row_order_does_not_matter_for_pins() -> None:
    state = rich_state()
    rows = state_to_rows(state, CURRENT_FORMAT)
    commits = [i for i, t in enumerate(rows["object_type"].to_pylist()) if t == "graph_commit"]
    others = [i for i in range(rows.num_rows) if i not in commits]
    assert state_from_rows(state.version, rows.take(others[::-1] + commits)) == state


def test_the_columns_are_those_of_the_design() -> None:
    rows = state_to_rows(rich_state(), 7)
    assert rows.schema.names == MANIFEST_SCHEMA.names
    assert rows.schema.names == [
        "object_id",
        "object_type",
        "location",
        "metadata",
        "base_objects",
        "table_key",
        "table_version",
        "table_branch",
        "row_count",
    ]
    kinds = set(rows["object_type"].to_pylist())
    assert kinds == {"table", "table_version", "table_tombstone", "graph_commit", "graph_head"}
    ids = rows["object_id"].to_pylist()
    assert len(set(ids)) == len(ids)
    assert read_stamp(rows.schema) == 7


def test_size_follows_tables_and_window_not_history() -> None:
    small, large = first_state("A"), chain(50)
    assert state_to_rows(small, 1).num_rows == 1 + 2 + 1
    assert state_to_rows(large, 1).num_rows == 1 + 2 * 2 + 51
    trimmed = replace(large, commits=large.commits[-3:])
    assert state_to_rows(trimmed, 1).num_rows == 1 + 2 * 2 + 3


def test_pins_of_forks_keep_their_owner() -> None:
    state = first_state("A")
    forked = replace(pin("A"), branch="b.01", owner="b.02", version=7)
    state = replace(state, tables={forked.key: forked})
    again = state_from_rows(1, state_to_rows(state, CURRENT_FORMAT))
    assert again.tables[forked.key] == forked


def test_a_text_with_anything_in_it_survives() -> None:
    state = first_state()
    draft = write(state, "c1", "A")
    assert draft.commit is not None
    spoken = replace(draft.commit, message='"quoted"\n\\ \u2028 ä 🜁', actor_id="")
    state = after(state, replace(draft, commit=spoken))
    again = state_from_rows(state.version, state_to_rows(state, CURRENT_FORMAT))
    assert again.commits[-1].commit.message == spoken.message


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

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from states import after, chain, first_state, physical, pin, write

from omnigraph.errors import (
    ExpectedVersionMismatch,
    NotFound,
    PreconditionFailed,
    WriterFenced,
)
from omnigraph.manifest.branch_state import BranchState, read_state, state_to_schema
from omnigraph.manifest.publication import (
    Publication,
    TableMove,
    apply_publication,
    undo_commits,
    unmet_requirement,
)
from omnigraph.manifest.records import MAIN_REF, StreamBatch, StreamMark
from omnigraph.values.identifiers import node_table


def unmet(state, publication):
    return unmet_requirement(state, publication, "main")


def test_a_write_fits_the_state_it_was_made_on() -> None:
    state = first_state()
    assert unmet(state, write(state, "c1", "A", "B")) is None


def test_disjoint_writes_do_not_disturb_each_other() -> None:
    state = first_state()
    mine = write(state, "c1", "A")
    assert unmet(after(state, write(state, "c2", "B")), mine) is None


def test_another_write_of_the_table_is_a_mismatch_with_its_numbers() -> None:
    state = first_state()
    mine = write(state, "c1", "A")
    found = unmet(after(state, write(state, "c2", "A")), mine)
    assert isinstance(found.error, ExpectedVersionMismatch)
    assert (found.error.table, found.error.expected, found.error.actual) == ("node:A", 1, 2)
    assert not found.physical


def test_physical_movement_is_told_apart() -> None:
    state = first_state()
    found = unmet(after(state, physical(state, "A")), write(state, "c1", "A"))
    assert found.physical
    assert found.error.retryable


def test_reads_compare_content_not_versions() -> None:
    state = first_state()
    reader = replace(write(state, "c1", "A"), reads=((node_table("B"), "e0"),))
    assert unmet(after(state, physical(state, "B")), reader) is None
    found = unmet(after(state, write(state, "c2", "B")), reader)
    assert (found.error.table, found.error.expected, found.error.actual) == ("node:B", "e0", "c2")
    dropped = after(state, Publication("i", 1, dropped=(node_table("B"),)))
    assert unmet(dropped, reader).error.actual is None


def test_if_commit() -> None:
    state = first_state()
    mine = replace(write(state, "c1", "A"), if_commit="c0")
    assert unmet(state, mine) is None
    found = unmet(after(state, write(state, "c2", "B")), mine).error
    assert isinstance(found, PreconditionFailed)
    assert (found.branch, found.expected, found.actual) == ("main", "c0", "c2")
    assert unmet(after(state, physical(state, "B")), mine) is None, "no commit, same head"


def test_a_cancelled_write_is_fenced_for_good() -> None:
    state = first_state()
    mine = write(state, "c1", "A")
    cancelled = after(state, Publication("other", 1, cancels=mine.intent_id))
    assert isinstance(unmet(cancelled, mine).error, WriterFenced)
    for number in range(40):
        cancelled = after(cancelled, Publication("o", 1, cancels=f"later-{number}"))
    assert isinstance(unmet(cancelled, mine).error, WriterFenced)


def test_a_deleted_branch_takes_nothing() -> None:
    state = first_state()
    deleted = after(state, Publication("d", 1, marks_deleted=True))
    assert deleted.deleted
    assert isinstance(unmet(deleted, write(state, "c1", "A")).error, NotFound)
    assert after(deleted, Publication("x", 2)).deleted, "nothing brings it back"


def test_a_table_is_created_once() -> None:
    state = first_state("A")
    creation = Publication("i", 1, created=(pin("N"),))
    assert unmet(state, creation) is None
    assert unmet(after(state, creation), creation).error.table == "node:N"


def test_applying_moves_pins_and_appends_one_commit() -> None:
    state = first_state()
    draft = write(state, "c1", "A")
    next_state, commit = apply_publication(state, draft, MAIN_REF, 5_000)
    assert next_state.version == state.version + 1
    assert next_state.tables[node_table("A")] == draft.moves[0].after
    assert next_state.tables[node_table("B")] == state.tables[node_table("B")]
    assert next_state.head_commit_id == "c1"
    assert (commit.parent_commit_id, commit.created_at) == ("c0", 5_000)
    assert commit.graph_manifest_version == next_state.version
    assert state.tables[node_table("A")].version == 1, "the state before is not changed"


def test_time_never_stands_still() -> None:
    state = first_state()
    state, commit = apply_publication(state, write(state, "c1", "A"), MAIN_REF, 10)
    assert commit.created_at == 1_001, "the parent's time plus one microsecond"


def test_physical_publications_make_no_commit() -> None:
    state = first_state()
    next_state, commit = apply_publication(state, physical(state, "A"), MAIN_REF, 5)
    assert commit is None
    assert next_state.commits == state.commits
    assert next_state.tables[node_table("A")].content_epoch == "e0"


def test_a_commit_records_the_pin_that_was_there() -> None:
    """Compaction may have moved the pin since the write looked; undo must lead to what was."""
    state = first_state()
    moved = after(state, physical(state, "A"))
    now = moved.tables[node_table("A")]
    publication = replace(
        write(state, "c1", "A"), moves=(TableMove(now, now.changed_to(9, 5, "c1"), "u"),)
    )
    _, commit = apply_publication(moved, publication, MAIN_REF, 9_000)
    assert [(p.before, p.after) for p in commit.pins] == [(now, publication.moves[0].after)]


def test_drop_and_create_in_one_step() -> None:
    state = first_state("A")
    swap = Publication("i", 1, dropped=(node_table("A"),), created=(pin("B"),), schema_id="s1")
    next_state = after(state, swap)
    assert list(next_state.tables) == [node_table("B")]
    assert next_state.dropped == {node_table("A"): pin("A")}
    assert next_state.schema_id == "s1"


def test_undo_leads_back_to_every_earlier_state() -> None:
    states = [first_state()]
    for number in range(1, 8):
        draft = write(states[-1], f"c{number}", *(("A", "B") if number % 3 == 0 else ("A",)))
        states.append(after(states[-1], draft, 1_000 + number))
    head = states[-1]
    for number, earlier in enumerate(states):
        undone = undo_commits(head.tables.values(), reversed(head.commits[number + 1 :]))
        assert undone == dict(earlier.tables)


def test_undo_of_create_and_drop() -> None:
    from omnigraph.manifest.publication import CommitDraft

    state = first_state("A")
    evolve = Publication(
        "i", 1, commit=CommitDraft("c1", "schema"), dropped=(node_table("A"),), created=(pin("N"),)
    )
    head = after(state, evolve)
    assert undo_commits(head.tables.values(), reversed(head.commits[1:])) == dict(state.tables)


@pytest.mark.parametrize("count", [0, 3])
def test_a_publication_survives_json(count: int) -> None:
    state = chain(count)
    publication = replace(
        write(state, "cx", "A", "B", key="k"),
        reads=((node_table("A"), "e0"),),
        created=(pin("N"),),
        dropped=(node_table("Z"),),
        schema_id="s1",
        if_commit="c0",
        cancels="i9",
    )
    text = json.dumps(publication.to_json())
    assert Publication.from_json(json.loads(text)) == publication


def batch(state: BranchState, commit_id: str, stream: str, number: int) -> Publication:
    publication = write(state, commit_id, "A")
    assert publication.commit is not None
    draft = replace(publication.commit, stream_batch=StreamBatch(stream, number))
    return replace(publication, commit=draft)


def test_the_mark_moves_with_the_commit_and_is_stored() -> None:
    state = first_state()
    state = after(state, batch(state, "c1", "s", 0))
    state = after(state, batch(state, "c2", "t", 7))
    state = after(state, batch(state, "c3", "s", 1))
    state = after(state, write(state, "c4", "B"))
    assert state.streams == {"t": StreamMark(7, "c2"), "s": StreamMark(1, "c3")}
    again = read_state(state.version, state_to_schema(state, 4), lambda: pa.table({}))
    assert again.streams == state.streams


def test_a_batch_survives_the_intent() -> None:
    publication = batch(first_state(), "c1", "s", 3)
    again = Publication.from_json(json.loads(json.dumps(publication.to_json())))
    assert again == publication


def test_the_most_silent_stream_is_forgotten_first() -> None:
    state = first_state()
    state = replace(state, streams={f"s{n}": StreamMark(n, "c") for n in range(256)})
    state = after(state, batch(state, "c1", "s0", 5))
    assert len(state.streams) == 256
    state = after(state, batch(state, "c2", "new", 0))
    assert len(state.streams) == 256
    assert "s1" not in state.streams
    assert {"s0", "new"} < set(state.streams)

from __future__ import annotations

import json
from dataclasses import replace

from states import after, first_state, write

from omnigraph.manifest.branch_state import BranchState, state_from_rows, state_to_rows
from omnigraph.manifest.publication import Publication
from omnigraph.manifest.records import StreamBatch, StreamMark


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
    assert state_from_rows(state.version, state_to_rows(state, 2)).streams == state.streams


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

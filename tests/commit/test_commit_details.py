"""What an operation records about itself is part of its commit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omnigraph.commit.request import Claims, CommitTerms
from omnigraph.errors import InvalidArgument
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.manifest.publication import CommitDraft
from omnigraph.manifest.records import Commit
from omnigraph.values.identifiers import EntityKind, TableKey
from omnigraph.writes.changeset import ChangeSet, MergedHead

_BROKEN = "x\ud800"
DETAILS = {"pipeline": {"name": "nightly", "positions": {"raw": ["a.csv", 3]}}}


def test_details_are_stored_with_the_commit_and_shown(graph: Graph, uri: str) -> None:
    graph.apply({"Note": {"insert": [{"id": "n1", "text": "x"}]}})
    commit = graph.commits.list()[0]
    assert "details" not in commit.to_dict()
    assert "details" not in commit.to_json(), "most commits have none, and the log is kept small"
    told = replace(commit, details=DETAILS)
    assert Commit.from_json(told.to_json()) == told
    assert told.to_dict()["details"] == DETAILS


def test_a_draft_of_an_intent_keeps_the_details() -> None:
    draft = CommitDraft("01J", "load", details=DETAILS)
    assert CommitDraft.from_json(draft.to_json()) == draft


def test_the_terms_of_a_write_reach_its_commit(graph: Graph, uri: str) -> None:
    key = TableKey(EntityKind.NODE, "Note")
    terms = CommitTerms(details=DETAILS)
    head = graph.commits.list()[0]
    merged = MergedHead(head.graph_commit_id, head.created_at, None, fast_forward=False)
    write = terms.request("note", Claims((key,)), repreparable=True)
    receipt = graph.engine.transaction.run(write, lambda snapshot: ChangeSet((), merged=merged))
    assert receipt.commit is not None
    again = open_graph(uri, read_only=True).commits.show(receipt.commit.graph_commit_id)
    assert again.details == DETAILS


@pytest.mark.parametrize("term", ["actor_id", "message", "idempotency_key"])
def test_texts_that_no_commit_can_hold_are_refused(graph: Graph, term: str) -> None:
    head = graph.commits.list()[0]
    rows = {"Note": {"insert": [{"id": "n1", "text": "x"}]}}
    by_term = term == "actor_id"
    writer, terms = (graph.as_actor(_BROKEN), {}) if by_term else (graph, {term: _BROKEN})
    with pytest.raises(InvalidArgument, match=f"{term} has half of a surrogate pair"):
        writer.apply(rows, **terms)
    assert graph.commits.list()[0] == head
    with pytest.raises(InvalidArgument, match="no id has half of a surrogate pair"):
        graph.read("Note", ids=[_BROKEN])

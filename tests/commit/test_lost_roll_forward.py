"""A dead write that can no longer be rolled forward is rolled back: nothing of it stays."""

from __future__ import annotations

from typing import Any

import pytest

from omnigraph import failpoints
from omnigraph.commit.request import CommitTerms, WriteReceipt
from omnigraph.errors import IdempotencyConflict
from omnigraph.failpoints import FailpointRaised
from omnigraph.graph.edits import apply_edits
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.manifest.publication import CommitDraft, Publication
from omnigraph.values.clock import SystemClock
from omnigraph_testing import workloads
from omnigraph_testing.invariants import assert_at_rest, content

NOTE = {"Note": {"insert": [{"id": "n1", "text": "x"}]}}
PERSON = {"Person": {"upsert": [{"name": "zoe", "age": 1}]}}


def test_the_loser_died_before_it_could_undo_itself(graph: Graph, uri: str) -> None:
    failpoints.arm("commit.before_publish", "raise")
    with pytest.raises(FailpointRaised):
        graph.apply(NOTE, idempotency_key="k")
    failpoints.disarm_all()
    # Opened for reading first, so that nothing swept the dead intent.
    other = Graph(open_graph(uri, read_only=True).engine, graph.actor, read_only=False)
    first = other.apply(PERSON, idempotency_key="k")
    assert not first.repeated
    fresh = open_graph(uri, actor=graph.actor, settings=workloads.settings())
    assert set(content(fresh)["Note"]) == {"n0"}
    assert "zoe" in content(fresh)["Person"]
    assert_at_rest(fresh)
    assert [a.recovery_kind for a in fresh.recoveries()] == ["rolled_back"]
    with pytest.raises(IdempotencyConflict, match=first.commit.graph_commit_id):
        fresh.apply(NOTE, idempotency_key="k")


def keyed(graph: Graph, edits: dict[str, Any], asked: str) -> WriteReceipt:
    """On a host of its own, which does not see the running requests of others."""
    details = {"request": {"fingerprint": asked}}
    terms = CommitTerms(actor=graph.actor, idempotency_key="k", details=details)
    return apply_edits(graph.engine, edits, terms)


def test_the_loser_undoes_itself(graph: Graph, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = open_graph(uri, actor=graph.actor, settings=workloads.settings(lease=0.1))
    publisher = graph.engine.transaction._publisher
    real = publisher.publish

    def publish_late(*arguments):
        monkeypatch.undo()
        keyed(other, PERSON, "person")
        return real(*arguments)

    monkeypatch.setattr(publisher, "publish", publish_late)
    with pytest.raises(IdempotencyConflict):
        keyed(graph, NOTE, "note")
    assert set(content(graph)["Note"]) == {"n0"}
    assert_at_rest(graph)


def test_a_dead_write_whose_precondition_is_gone_does_not_wedge(graph: Graph, uri: str) -> None:
    """Head moved before anyone recovered it: its owner would have been refused, so it goes back."""
    before = content(graph)
    failpoints.arm("commit.before_publish", "raise")
    with pytest.raises(FailpointRaised):
        graph.apply(NOTE, if_commit=graph.commits.list()[0].graph_commit_id)
    failpoints.disarm_all()
    ref, state = graph.engine.reader.branch("main")
    clock = SystemClock()
    draft = CommitDraft(clock.new_ulid(), "apply", message="got in between")
    publisher = graph.engine.lifecycle._publisher
    publisher.publish(ref, Publication(clock.new_ulid(), state.version, commit=draft))
    fresh = open_graph(uri, actor=graph.actor, settings=workloads.settings())
    assert content(fresh) == before
    assert [a.recovery_kind for a in fresh.recoveries()] == ["rolled_back"]
    assert_at_rest(fresh)
    assert fresh.apply(NOTE).commit is not None

"""The one undo: pinned rows come back on top of a HEAD, for a rollback, a repair and recovery."""

from __future__ import annotations

import signal

import pytest
from intents_for_tests import intent

from omnigraph import failpoints
from omnigraph.commit.restore import restore_pin, tag_orphan, undo_to_pins
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.lance_store.store import DatasetVersion, head_version
from omnigraph.manifest.records import TablePin
from omnigraph.values.identifiers import node_table
from omnigraph_testing import workloads
from omnigraph_testing.crash import start
from omnigraph_testing.invariants import assert_at_rest, content

NOTE = node_table("Note")


def head_of(graph: Graph, pin: TablePin) -> int:
    return head_version(graph.engine.store.open(pin.at))


@pytest.mark.parametrize("branch", ["main", "b"])
def test_a_restored_pin_has_the_same_rows_above_the_orphan(graph: Graph, branch: str) -> None:
    graph.branches.create("b")
    graph.apply({"Note": {"insert": [{"id": "n1", "text": "b"}]}}, branch)
    store, pin = graph.engine.store, graph.snapshot(branch).tables[NOTE]
    workloads.leave_orphan_head(graph, branch)
    orphan = head_of(graph, pin)
    move = restore_pin(store, pin)
    assert (move.expected, move.transaction_uuid) == (pin, None)
    assert move.after == pin.moved_to(orphan + 1)
    assert move.after.version == head_of(graph, pin)
    assert store.open(move.after.at).to_table() == store.open(pin.at).to_table()
    assert graph.snapshot(branch).tables[NOTE] == pin, "nothing is published by it"


def test_an_orphan_stays_readable_by_its_tag(graph: Graph) -> None:
    store, pin = graph.engine.store, graph.snapshot().tables[NOTE]
    workloads.leave_orphan_head(graph)
    orphan = DatasetVersion(pin.location, pin.branch, head_of(graph, pin))
    found_by = intent(7)
    tag_orphan(store, orphan, found_by)
    tag_orphan(store, orphan, found_by)
    restore_pin(store, pin)
    tags = store.open_head(pin.location, None).tags.list()
    assert tags[f"orphan-{found_by.intent_id}"]["version"] == orphan.version
    assert "orphan" in store.open(orphan).to_table().column("id").to_pylist()


def test_undo_publishes_where_the_rows_are_now_and_no_commit(graph: Graph) -> None:
    engine, before = graph.engine, content(graph)
    pins = [pin for key, pin in graph.snapshot().tables.items() if key.type_name != "Knows"]
    commit_id = graph.snapshot().graph_commit_id
    workloads.leave_orphan_head(graph)
    undo_to_pins(engine.reader, engine.publisher, intent(7), pins)
    assert graph.snapshot().graph_commit_id == commit_id
    for pin in pins:
        moved = graph.snapshot().tables[pin.key]
        assert moved == pin.moved_to(head_of(graph, pin))
        assert moved.version > pin.version
    assert content(graph) == before
    assert graph.recoveries() == []
    assert_at_rest(graph)


def test_nothing_to_undo_publishes_nothing(graph: Graph) -> None:
    before = graph.snapshot()
    undo_to_pins(graph.engine.reader, graph.engine.publisher, intent(7), [])
    assert graph.snapshot() == before


@pytest.mark.crash
@pytest.mark.parametrize("point", failpoints.ROLLBACK_POINTS)
def test_a_repair_killed_in_its_undo_does_no_harm_and_can_be_repeated(
    graph: Graph, uri: str, point: str
) -> None:
    before = content(graph)
    workloads.leave_orphan_head(graph)
    repair = start(
        "omnigraph_testing.workloads:repair_all", {"uri": uri}, failpoints=f"{point}=kill"
    )
    code, _, stderr = repair.finish()
    assert code == -signal.SIGKILL, stderr
    reopened = open_graph(uri, settings=workloads.settings())
    assert content(reopened) == before
    reopened.repair(confirm=True)
    assert reopened.repair().clean
    assert content(reopened) == before
    assert_at_rest(reopened)


@pytest.mark.parametrize("point", failpoints.ROLLBACK_POINTS)
def test_a_repair_that_fails_in_its_undo_can_be_repeated(graph: Graph, point: str) -> None:
    before = content(graph)
    workloads.leave_orphan_head(graph)
    failpoints.arm(point, "raise")
    with pytest.raises(failpoints.FailpointRaised):
        graph.repair(confirm=True)
    failpoints.disarm_all()
    graph.repair(confirm=True)
    assert graph.repair().clean
    assert content(graph) == before
    assert_at_rest(graph)

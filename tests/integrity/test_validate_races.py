"""Writers of different tables whose checks rely on each other: one of them must lose."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.commit.request import WriteRequest
from omnigraph.errors import (
    CommitRejected,
    ExpectedVersionMismatch,
    OmnigraphError,
    ValidationFailed,
)
from omnigraph.graph.handle import Graph
from omnigraph.schema.build import catalog_from_text
from omnigraph.values.identifiers import node_table
from omnigraph.writes.changeset import ChangeSet, EditRows
from omnigraph_testing.graph_helpers import meanwhile, rival_of
from omnigraph_testing.invariants import content

SCHEMA = """
node Person { name: String @key  email: String? @unique }
edge Knows: Person -> Person @card(0..1)
edge Owns: Person -> Person @card(1..)
"""
SCHEMA_PLAIN = SCHEMA.replace("edge Owns: Person -> Person @card(1..)\n", "")
POINTS = ["commit.after_stage", "commit.before_arm"]


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA_PLAIN)
    graph.apply({"Person": {"insert": [{"name": n} for n in "abcd"]}})
    return graph


def assert_sound(graph: Graph) -> None:
    found = content(graph)
    people, knows = found.get("Person", {}), found.get("Knows", {})
    assert all(e["src"] in people and e["dst"] in people for e in knows.values())
    emails = [p["email"] for p in people.values() if p["email"] is not None]
    assert len(emails) == len(set(emails))
    sources = [e["src"] for e in knows.values()]
    assert len(sources) == len(set(sources))


@pytest.mark.parametrize("point", POINTS)
def test_an_edge_whose_node_is_deleted_meanwhile(graph, monkeypatch, point) -> None:
    rival = rival_of(graph)
    meanwhile(monkeypatch, point, lambda: rival.apply({"Person": {"delete": ["b"]}}))
    with pytest.raises(ValidationFailed) as caught:
        graph.apply({"Knows": {"insert": [{"from": "a", "to": "b"}]}})
    assert caught.value.violations[0]["rule"] == "endpoint"
    assert_sound(graph)


@pytest.mark.parametrize("point", POINTS)
def test_a_node_that_gets_an_edge_while_it_is_deleted(graph, monkeypatch, point) -> None:
    rival = rival_of(graph)
    edge = {"Knows": {"insert": [{"from": "a", "to": "b"}]}}
    meanwhile(monkeypatch, point, lambda: rival.apply(edge))
    with pytest.raises(ExpectedVersionMismatch):
        graph.apply({"Person": {"delete": ["b"]}})
    assert_sound(graph)
    assert graph.apply({"Person": {"delete": ["b"]}}).affected_edges == 1
    assert_sound(graph)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (
            {"Person": {"insert": [{"name": "e", "email": "x"}]}},
            {"Person": {"insert": [{"name": "f", "email": "x"}]}},
        ),
        (
            {"Knows": {"insert": [{"from": "a", "to": "b"}]}},
            {"Knows": {"insert": [{"from": "a", "to": "c"}]}},
        ),
    ],
)
def test_two_that_fit_alone_and_not_together(graph, monkeypatch, point, mine, theirs) -> None:
    rival = rival_of(graph)
    meanwhile(monkeypatch, point, lambda: rival.apply(theirs))
    with pytest.raises(ValidationFailed):
        graph.apply(mine)
    assert_sound(graph)


@pytest.mark.parametrize("point", POINTS)
def test_a_minimum_and_a_new_source(tmp_path, monkeypatch, point) -> None:
    """A new node and its only edge, removed by somebody who saw it in time, or not at all."""
    graph = omnigraph.init(tmp_path / "m.omni", SCHEMA)
    first = {"Person": {"insert": [{"name": "a"}]}, "Owns": {"insert": [{"from": "a", "to": "a"}]}}
    graph.apply(first)
    rival = rival_of(graph)
    meanwhile(monkeypatch, point, lambda: rival.apply({"Person": {"delete": ["a"]}}))
    with pytest.raises(ValidationFailed):
        graph.apply(
            {"Person": {"insert": [{"name": "b"}]}, "Owns": {"insert": [{"from": "b", "to": "a"}]}}
        )
    assert content(graph) == {}


def test_threads_that_fight_over_everything(graph: Graph) -> None:
    handles = [graph, rival_of(graph), rival_of(graph)]
    before, done = len(graph.commits.list(limit=None)), list[str]()
    edits = [
        {"Person": {"delete": ["b"]}},
        {"Knows": {"insert": [{"from": "a", "to": "b"}]}},
        {"Person": {"upsert": [{"name": "b", "email": "x"}]}},
        {"Person": {"upsert": [{"name": "c", "email": "x"}]}},
        {"Knows": {"insert": [{"from": "b", "to": "c"}]}},
    ]

    def work(handle: Graph, offset: int) -> None:
        for turn in range(6):
            try:
                receipt = handle.apply(edits[(turn + offset) % len(edits)])
                if receipt.commit is not None:
                    done.append(receipt.commit.graph_commit_id)
            except OmnigraphError:
                continue

    threads = [threading.Thread(target=work, args=(h, n)) for n, h in enumerate(handles)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert_sound(graph)
    assert len(done) >= len(handles)
    made = graph.commits.list(limit=None)[: len(done)]
    assert {commit.graph_commit_id for commit in made} == set(done)
    assert len(graph.commits.list(limit=None)) == before + len(done)


LATER = "edge Likes: Person -> Person\n"


@pytest.fixture
def outdated(graph: Graph) -> Graph:
    """It has not seen yet that somebody else added a type of edges."""
    graph.read("Person")
    rival_of(graph).schema.apply(catalog_from_text(SCHEMA_PLAIN + LATER))
    return graph


def by_apply(graph: Graph) -> tuple[int, int]:
    receipt = graph.apply({"Person": {"delete": ["b"]}})
    return receipt.affected_nodes, receipt.affected_edges


def by_mutate(graph: Graph) -> tuple[int, int]:
    receipt = graph.mutate('query d() { delete Person where name = "b" }')
    return receipt.affected_nodes, receipt.affected_edges


DELETES = pytest.mark.parametrize("delete", [by_apply, by_mutate])
LIKES = {"Likes": {"insert": [{"from": "a", "to": "b"}]}}


@DELETES
def test_edges_of_a_type_that_was_added_elsewhere_go_with_their_node(outdated, delete) -> None:
    rival_of(outdated).apply(LIKES)
    assert delete(outdated) == (1, 1)
    assert outdated.verify().ok


@DELETES
@pytest.mark.parametrize("point", POINTS)
def test_such_an_edge_that_appears_during_the_delete(outdated, monkeypatch, point, delete) -> None:
    rival = rival_of(outdated)
    meanwhile(monkeypatch, point, lambda: rival.apply(LIKES))
    with pytest.raises(ExpectedVersionMismatch):
        delete(outdated)
    assert outdated.verify().ok
    assert delete(outdated) == (1, 1)
    assert outdated.verify().ok


@DELETES
def test_the_first_delete_after_a_change_of_the_schema_is_no_conflict(outdated, delete) -> None:
    assert delete(outdated) == (1, 0)


def test_a_minimum_that_was_added_elsewhere_is_heeded(outdated) -> None:
    rival = rival_of(outdated)
    wants = catalog_from_text(SCHEMA_PLAIN + LATER + "edge Needs: Person -> Person @card(1..)\n")
    rival.apply({"Person": {"delete": list("abcd")}})
    rival.schema.apply(wants)
    with pytest.raises(ValidationFailed):
        outdated.apply({"Person": {"insert": [{"name": "z"}]}})


def test_a_schema_that_never_stops_changing_is_a_conflict_in_the_end(graph, monkeypatch) -> None:
    """Every look finds another edge type: the write gives up, and has changed nothing."""
    rival, text = rival_of(graph), [SCHEMA_PLAIN]
    transaction = graph.engine.transaction
    attempt = transaction._attempt

    def after_a_change(*arguments):
        text.append(f"edge Later{len(text)}: Person -> Person\n")
        rival.schema.apply(catalog_from_text("".join(text)))
        return attempt(*arguments)

    monkeypatch.setattr(transaction, "_attempt", after_a_change)
    with pytest.raises(ExpectedVersionMismatch) as caught:
        by_apply(graph)
    assert caught.value.table == "schema"
    monkeypatch.undo()
    assert by_apply(graph) == (1, 0)


def test_a_write_to_a_table_it_did_not_claim_is_refused(graph: Graph) -> None:
    edit = EditRows(node_table("Person"), deletes=pa.array(["b"]))
    before = content(graph)
    with pytest.raises(CommitRejected, match="did not claim node:Person"):
        graph.engine.transaction.run(
            WriteRequest("main", "apply", ()), lambda _: ChangeSet((edit,))
        )
    assert content(graph) == before

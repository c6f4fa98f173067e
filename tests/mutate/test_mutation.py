"""`g.mutate`: receipts, preconditions, branches, races."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import (
    ExpectedVersionMismatch,
    InvalidArgument,
    NotFound,
    OmnigraphError,
    PreconditionFailed,
    ReadOnlyGraph,
    ValidationFailed,
)
from omnigraph.graph.handle import Graph
from omnigraph.integrity import cascade, stored_image
from omnigraph.schema.build import catalog_from_text
from omnigraph_testing.graph_helpers import meanwhile, rival_of
from omnigraph_testing.invariants import assert_at_rest, content

SCHEMA = """
node Person { name: String @key  email: String? @unique  age: I64? }
edge Knows: Person -> Person @card(0..1)
"""
TEXT = """
query add($name: String, $age: I64?) { insert Person { name: $name, age: $age } }
query older($name: String) { update Person set { age: age + 1 } where name = $name }
query claim($name: String, $email: String) { insert Person { name: $name, email: $email } }
query meet($a: String, $b: String) { insert Knows { from: $a, to: $b } }
query forget($name: String) { delete Person where name = $name }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA, actor="ada")
    graph.apply({"Person": {"insert": [{"name": n, "age": 1} for n in "abc"]}})
    return graph


def ages(graph: Graph, branch: str = "main") -> dict[str, int]:
    return {i: row["age"] for i, row in content(graph, branch)["Person"].items()}


def test_a_receipt_is_exact(graph: Graph) -> None:
    receipt = graph.mutate(TEXT, "add", {"name": "d", "age": 5}, message="hello")
    assert receipt.commit == graph.commits.list()[0]
    assert receipt.to_dict() == {
        "branch": "main",
        "query_name": "add",
        "affected_nodes": 1,
        "affected_edges": 0,
        "actor_id": "ada",
        "commit": receipt.commit.to_dict(),
        "repeated": False,
    }
    assert (receipt.commit.message, receipt.commit.operation) == ("hello", "mutate")
    nothing = graph.mutate(TEXT, "forget", {"name": "nobody"})
    assert (nothing.commit, nothing.actor_id, nothing.affected_nodes) == (None, "ada", 0)


def test_if_commit(graph: Graph) -> None:
    head = graph.snapshot().graph_commit_id
    graph.mutate(TEXT, "older", {"name": "a"}, if_commit=head)
    with pytest.raises(PreconditionFailed):
        graph.mutate(TEXT, "older", {"name": "a"}, if_commit=head)
    assert ages(graph)["a"] == 2


def test_an_idempotency_key_gives_the_first_receipt(graph: Graph) -> None:
    first = graph.mutate(TEXT, "older", {"name": "a"}, idempotency_key="k")
    again = graph.mutate(TEXT, "older", {"name": "a"}, idempotency_key="k")
    assert (again.commit, again.affected_nodes, again.repeated) == (first.commit, 1, True)
    assert ages(graph)["a"] == 2


def test_a_branch_of_its_own(graph: Graph) -> None:
    graph.branches.create("side")
    graph.mutate(TEXT, "older", {"name": "a"}, "side")
    graph.mutate(TEXT, "forget", {"name": "b"}, branch="side")
    assert ages(graph) == {"a": 1, "b": 1, "c": 1}
    assert ages(graph, "side") == {"a": 2, "c": 1}


@pytest.mark.parametrize(
    ("name", "params", "kind"),
    [
        ("nothing", {}, NotFound),
        (None, {}, InvalidArgument),
        ("add", {}, InvalidArgument),
        ("add", {"name": 5}, InvalidArgument),
        ("add", {"name": "x", "more": 1}, InvalidArgument),
        ("add", {"name": "\ud800"}, InvalidArgument),
    ],
)
def test_wrong_calls(graph: Graph, name, params, kind) -> None:
    before = content(graph)
    with pytest.raises(kind):
        graph.mutate(TEXT, name, params)
    assert content(graph) == before


def test_a_read_only_handle_and_a_missing_branch(graph: Graph) -> None:
    with pytest.raises(ReadOnlyGraph):
        omnigraph.open(graph.uri, read_only=True).mutate(TEXT, "add", {"name": "x"})
    with pytest.raises(NotFound):
        graph.mutate(TEXT, "add", {"name": "x"}, branch="nowhere")


def test_a_schema_that_grew_is_noticed(graph: Graph) -> None:
    other = omnigraph.open(graph.uri)

    other.schema.apply(catalog_from_text(SCHEMA + "node Note { text: String }"))
    assert graph.mutate('query q() { insert Note { text: "x" } }').affected_nodes == 1


# --- races


def test_inserts_are_prepared_again_updates_are_not(graph: Graph, monkeypatch) -> None:
    rival = rival_of(graph)
    meanwhile(monkeypatch, "commit.after_stage", lambda: rival.mutate(TEXT, "older", {"name": "a"}))
    graph.mutate(TEXT, "add", {"name": "d"})
    meanwhile(monkeypatch, "commit.after_stage", lambda: rival.mutate(TEXT, "older", {"name": "a"}))
    with pytest.raises(ExpectedVersionMismatch):
        graph.mutate(TEXT, "older", {"name": "a"})
    assert ages(graph) == {"a": 3, "b": 1, "c": 1, "d": None}
    assert_at_rest(graph)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (("claim", {"name": "x", "email": "e"}), ("claim", {"name": "y", "email": "e"})),
        (("meet", {"a": "a", "b": "b"}), ("meet", {"a": "a", "b": "c"})),
        (("meet", {"a": "a", "b": "b"}), ("forget", {"name": "b"})),
    ],
)
def test_exactly_one_wins(graph: Graph, monkeypatch, mine, theirs) -> None:
    rival = rival_of(graph)
    meanwhile(monkeypatch, "commit.after_stage", lambda: rival.mutate(TEXT, *theirs))
    with pytest.raises(ValidationFailed):
        graph.mutate(TEXT, *mine)
    assert len(graph.commits.list()) == 3
    assert_at_rest(graph)


def test_threads_count_every_update_once(graph: Graph) -> None:
    """Lost updates would show: every acknowledged one is in the sum."""
    handles = [graph, rival_of(graph), rival_of(graph)]
    done: list[int] = []

    def work(handle: Graph) -> None:
        for _ in range(5):
            try:
                handle.mutate(TEXT, "older", {"name": "a"})
                done.append(1)
            except ExpectedVersionMismatch:
                continue
            except OmnigraphError:
                done.append(1000)
                raise

    threads = [threading.Thread(target=work, args=(h,)) for h in handles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert ages(graph)["a"] == 1 + sum(done)
    assert done


def test_every_error_is_public() -> None:
    assert omnigraph.ValidationFailed is ValidationFailed
    with pytest.raises(AttributeError):
        _ = omnigraph.Nothing


DELETES = """
query one($name: String) { delete Person where name = $name }
query older($name: String, $age: I64) { delete Person where name = $name and age > $age }
query some($names: [String]) { delete Person where name in $names }
query two($a: String, $b: String) { delete Person where name = $a  delete Person where name = $b }
query edge($a: String, $b: String) { delete Knows where src = $a  delete Person where name = $b }
query many($names: [String], $b: String) { delete Person where name in $names and name = $b }
"""
CIRCLE = {f"{a}{b}": (a, b) for a, b in ("ab", "bc", "cd", "da")}


@pytest.fixture
def circle(graph: Graph) -> Graph:
    """Four persons, of whom each knows the next one."""
    graph.apply(
        {
            "Person": {"insert": [{"name": "d", "age": 1}]},
            "Knows": {"insert": [{"id": i, "from": a, "to": b} for i, (a, b) in CIRCLE.items()]},
        }
    )
    return graph


@pytest.mark.parametrize(
    ("query", "params", "gone"),
    [
        ("one", {"name": "a"}, "a"),
        ("one", {"name": "nobody"}, ""),
        ("older", {"name": "a", "age": 0}, "a"),
        ("older", {"name": "a", "age": 9}, ""),
        ("some", {"names": ["d", "nobody", "b"]}, "bd"),
        ("some", {"names": ["c", "a", "c"]}, "ac"),
        ("two", {"a": "a", "b": "b"}, "ab"),
        ("two", {"a": "a", "b": "nobody"}, "a"),
        ("two", {"a": "nobody", "b": "c"}, "c"),
        ("edge", {"a": "a", "b": "b"}, "b"),
        ("many", {"names": ["a", "b", "c"], "b": "b"}, "b"),
    ],
)
def test_edges_go_with_the_nodes_that_go(
    circle: Graph, query: str, params: dict, gone: str
) -> None:
    """Edges are searched for while it is not known which of the named nodes go."""
    circle.mutate(DELETES, query, params)
    found = content(circle)
    assert set(found["Person"]) == set("abcd") - set(gone)
    ended = {"ab"} if query == "edge" else set()
    left = {i for i, ends in CIRCLE.items() if not set(ends) & set(gone)} - ended
    assert set(found.get("Knows", {})) == left
    assert_at_rest(circle)


def test_edges_are_searched_for_once(circle: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the lookup of the node, and not again afterwards."""
    threads: list[str] = []
    real = cascade.find_any

    def find_any(dataset, wanted, columns):
        threads.append(threading.current_thread().name)
        return real(dataset, wanted, columns)

    monkeypatch.setattr(cascade, "find_any", find_any)
    monkeypatch.setattr(stored_image, "find_any", find_any)
    circle.mutate(DELETES, "one", {"name": "a"})
    assert [name.rpartition("_")[0] for name in threads] == ["edge-search"]
    assert set(content(circle)["Knows"]) == {"bc", "cd"}


def test_an_edge_of_another_writer_goes_too(circle: Graph) -> None:
    """Every search is for the snapshot of its own write."""
    circle.mutate(DELETES, "one", {"name": "a"})
    rival_of(circle).apply({"Knows": {"insert": [{"id": "db", "from": "d", "to": "b"}]}})
    circle.mutate(DELETES, "one", {"name": "b"})
    assert set(content(circle)["Knows"]) == {"cd"}
    assert_at_rest(circle)

"""What a graph promises, on a directory and on S3 alike."""

from __future__ import annotations

import signal
import time
from dataclasses import replace

import pytest

from omnigraph.commit.request import WriteRequest
from omnigraph.errors import (
    AlreadyExists,
    ExpectedVersionMismatch,
    IdempotencyConflict,
    InvalidArgument,
    InvalidName,
    KeyConflict,
    NotFound,
    PreconditionFailed,
    ReadOnlyGraph,
    ValidationFailed,
)
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph.lance_store.store import head_version
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.settings.models import HistorySettings
from omnigraph.values.identifiers import node_table
from omnigraph.values.temporal import write_micros
from omnigraph.writes.changeset import ChangeSet, EditRows
from omnigraph.writes.shape import Edit, shape_edits
from omnigraph_testing import workloads
from omnigraph_testing.crash import start
from omnigraph_testing.invariants import assert_at_rest, assert_history_readable, content

W = "omnigraph_testing.workloads:"
LEASE = 0.8


def note(entity_id: str, text: str = "x") -> dict[str, object]:
    return {"id": entity_id, "text": text}


def insert(*ids: str) -> dict[str, Edit]:
    return {"Note": Edit(insert=[note(i) for i in ids])}


def note_ids(graph: Graph, branch: str = "main", at: str | None = None) -> set[str]:
    return set(graph.read("Note", branch, at=at, columns=["id"]).column("id").to_pylist())


def heads(graph: Graph) -> dict[str, int]:
    pins = graph.snapshot().tables.values()
    return {str(p.key): head_version(graph.engine.store.open(p.at)) for p in pins}


# --- writing ------------------------------------------------------------------------------------


def test_init_refuses_an_existing_graph(any_graph: Graph, any_uri: str) -> None:
    before = content(any_graph)
    with pytest.raises(AlreadyExists, match="open it instead"):
        init(any_uri, workloads.small_catalog())
    assert content(any_graph) == before


def test_open_of_nothing_says_so(any_uri: str) -> None:
    with pytest.raises(NotFound, match="create one with init"):
        open_graph(any_uri)
    with pytest.raises(NotFound):
        open_graph(any_uri, read_only=True)


def test_several_types_in_one_commit(any_graph: Graph) -> None:
    before = any_graph.commits.list()
    receipt = any_graph.apply(
        {
            "Person": {"upsert": [{"name": "ada", "age": 10}, {"name": "cy"}]},
            "Note": {"insert": [note("n1"), note("n2")], "delete": ["n0"]},
            "Knows": {"upsert": [{"id": "k1", "from": "ada", "to": "cy"}], "delete": ["k0"]},
        }
    )
    assert (receipt.affected_nodes, receipt.affected_edges) == (5, 2)
    assert len(any_graph.commits.list()) == len(before) + 1
    found = content(any_graph)
    assert {n: p["age"] for n, p in found["Person"].items()} == {"ada": 10, "bob": 2, "cy": None}
    assert set(found["Note"]) == {"n1", "n2"}
    assert set(found["Knows"]) == {"k1"}
    assert receipt.commit is not None
    changed = {str(c.key): c.ids for c in receipt.commit.changes}
    assert changed == {
        "node:Person": (("cy",), ("ada",), ()),
        "node:Note": (("n1", "n2"), (), ("n0",)),
        "edge:Knows": (("k1",), (), ("k0",)),
    }
    assert_at_rest(any_graph)


def test_insert_of_existing_ids_names_them(any_graph: Graph) -> None:
    before, moved = content(any_graph), heads(any_graph)
    with pytest.raises(KeyConflict) as caught:
        any_graph.apply(
            {"Person": {"insert": [{"name": n} for n in ("new", "ada", "bob")]}, **insert("n9")}
        )
    assert sorted(caught.value.ids) == ["ada", "bob"]
    assert (content(any_graph), heads(any_graph)) == (before, moved)
    assert_at_rest(any_graph)


def test_what_changes_nothing_commits_nothing(any_graph: Graph) -> None:
    head, moved = any_graph.snapshot(), heads(any_graph)
    for edits in (
        {"Note": {"delete": ["not there"]}},
        {"Person": {"upsert": [{"name": "ada", "age": 1}]}},
        {"Note": Edit()},
        {},
    ):
        receipt = any_graph.apply(edits)
        assert receipt.commit is None
        assert (receipt.affected_nodes, receipt.affected_edges) == (0, 0)
    assert heads(any_graph) == moved
    assert any_graph.snapshot() == head


def test_one_id_twice_is_refused(any_graph: Graph) -> None:
    with pytest.raises(ValidationFailed) as caught:
        any_graph.apply({"Note": {"insert": [note("n7")], "delete": ["n7"]}})
    assert [(v["rule"], v["entity_id"]) for v in caught.value.violations] == [
        ("duplicate_id", "n7")
    ]


def test_commit_fields(any_uri: str) -> None:
    graph = workloads.create_small_graph(any_uri)
    ada = open_graph(any_uri, actor="ada", settings=workloads.settings())
    parent = graph.commits.list()[0]
    before = time.time_ns() // 1000
    receipt = ada.apply(insert("n1"), message="hello")
    commit = ada.commits.show(graph.commits.list()[0].graph_commit_id)
    assert receipt.commit == commit
    assert (commit.actor_id, commit.message, commit.operation) == ("ada", "hello", "apply")
    assert (commit.parent_commit_id, commit.merged_parent_commit_id) == (
        parent.graph_commit_id,
        None,
    )
    assert commit.graph_branch == "main"
    assert commit.graph_manifest_version == ada.snapshot().graph_manifest_version
    assert before <= commit.created_at <= time.time_ns() // 1000
    assert receipt.to_dict()["commit"]["graph_commit_id"] == commit.graph_commit_id


def test_if_commit(any_graph: Graph) -> None:
    seen = any_graph.commits.list()[0].graph_commit_id
    first = any_graph.apply(insert("n1"), if_commit=seen)
    assert first.commit is not None
    with pytest.raises(PreconditionFailed) as caught:
        any_graph.apply(insert("n2"), if_commit=seen)
    assert (caught.value.branch, caught.value.expected, caught.value.actual) == (
        "main",
        seen,
        first.commit.graph_commit_id,
    )
    assert "n2" not in note_ids(any_graph)
    assert_at_rest(any_graph)


def test_idempotency_key_gives_the_first_receipt_again(any_uri: str) -> None:
    settings = replace(
        workloads.settings(), history=HistorySettings(window_low=2, window_high=4, fan_out=2)
    )
    graph = init(any_uri, workloads.small_catalog(), settings=settings)
    first = graph.apply(insert("n1"), idempotency_key="order-1")
    again = graph.apply(insert("n1"), idempotency_key="order-1")
    assert (again.repeated, first.repeated) == (True, False)
    assert again.to_dict() == {**first.to_dict(), "repeated": True}
    assert (again.commit, again.affected_nodes) == (first.commit, first.affected_nodes)

    other = open_graph(any_uri, settings=settings)
    assert other.apply(insert("n1"), idempotency_key="order-1").commit == first.commit
    for number in range(12):  # the first commit leaves the head for a __history segment
        graph.apply(insert(f"later-{number}"))
    assert graph.engine.reader.branch("main")[1].history
    assert other.apply(insert("n1"), idempotency_key="order-1").commit == first.commit
    fresh = open_graph(any_uri, settings=settings)
    assert fresh.apply(insert("n1"), idempotency_key="order-1").commit == first.commit
    with pytest.raises(IdempotencyConflict) as conflict:
        fresh.apply(insert("other"), idempotency_key="order-1")
    assert conflict.value.key == "order-1"
    assert fresh.apply(insert("other"), idempotency_key="order-2").repeated is False
    # A key belongs to one actor.
    ada = fresh.as_actor("ada")
    assert ada.apply(insert("of ada"), idempotency_key="order-1").repeated is False
    assert len(graph.commits.list(limit=None)) == 16
    assert_at_rest(graph)


def test_an_open_handle_sees_other_commits(any_graph: Graph, any_uri: str) -> None:
    other = open_graph(any_uri, settings=workloads.settings())
    for number in range(3):
        any_graph.apply(insert(f"a{number}"))
        assert f"a{number}" in note_ids(other)
        other.apply(insert(f"b{number}"))
        assert f"b{number}" in note_ids(any_graph)
    other.branches.create("seen")
    assert "seen" in [b.name for b in any_graph.branches.list()]
    assert_at_rest(any_graph)


def test_a_read_only_handle_refuses_to_write(any_graph: Graph, any_uri: str) -> None:
    reader = open_graph(any_uri, read_only=True)
    assert content(reader) == content(any_graph)
    for write in (
        lambda: reader.apply(insert("n1")),
        lambda: reader.branches.create("b"),
        lambda: reader.branches.delete("b"),
        lambda: reader.tags.create("t"),
        lambda: reader.tags.delete("t"),
        reader.optimize,
        reader.refresh,
    ):
        with pytest.raises(ReadOnlyGraph):
            write()


def test_a_stale_writer_is_told_what_moved(any_graph: Graph, any_uri: str) -> None:
    other = open_graph(any_uri, settings=workloads.settings())
    key = node_table("Note")
    pin = any_graph.snapshot().pin(key)

    def build(snapshot: Snapshot) -> ChangeSet:
        changes = shape_edits(snapshot.catalog, {"Note": Edit(delete=["n0"])}, lambda: "", 0)
        other.apply(insert("between"))
        return changes

    request = WriteRequest("main", "apply", (key,), repreparable=False, long_build=True)
    with pytest.raises(ExpectedVersionMismatch) as caught:
        any_graph.engine.transaction.run(request, build)
    assert (caught.value.table, caught.value.expected, caught.value.actual) == (
        "node:Note",
        pin.version,
        pin.version + 1,
    )
    assert caught.value.retryable
    assert note_ids(any_graph) == {"n0", "between"}
    assert_at_rest(any_graph)


def test_an_insert_that_lost_is_prepared_again(any_graph: Graph, any_uri: str) -> None:
    other = open_graph(any_uri, settings=workloads.settings())
    key = node_table("Note")
    builds: list[int] = []

    def build(snapshot: Snapshot) -> ChangeSet:
        if len(builds) < 2:
            other.apply(insert(f"between-{len(builds)}"))
        builds.append(snapshot.pin(key).row_count)
        rows = shape_edits(snapshot.catalog, insert("mine"), lambda: "", 0).effects
        assert isinstance(rows[0], EditRows)
        return ChangeSet(rows)

    request = WriteRequest("main", "apply", (key,), long_build=True)
    receipt = any_graph.engine.transaction.run(request, build)
    assert receipt.commit is not None
    assert builds == [1, 2, 3], "each attempt starts from a newer snapshot"
    assert note_ids(other) == {"n0", "between-0", "between-1", "mine"}
    assert_at_rest(any_graph)


# --- branches, tags, time travel ----------------------------------------------------------------


def test_branches_are_independent_and_fork_lazily(any_graph: Graph) -> None:
    any_graph.branches.create("review")
    nested = any_graph.branches.create("review/x", source="review")
    assert (nested.forked_from, nested.head_commit_id) == (
        "review",
        any_graph.commits.list()[0].graph_commit_id,
    )
    assert any_graph.snapshot("review/x").tables == any_graph.snapshot().tables
    any_graph.apply(insert("only-review"), "review")
    any_graph.apply(insert("only-x"), "review/x")
    any_graph.apply(insert("only-main"))
    assert note_ids(any_graph) == {"n0", "only-main"}
    assert note_ids(any_graph, "review") == {"n0", "only-review"}
    assert note_ids(any_graph, "review/x") == {"n0", "only-x"}
    key = next(k for k in any_graph.snapshot().tables if k.type_name == "Person")
    assert any_graph.snapshot("review").pin(key) == any_graph.snapshot().pin(key), "not written"
    assert sorted(b.name for b in any_graph.branches.list()) == ["main", "review", "review/x"]
    inherited = any_graph.commits.list("review/x")
    assert inherited[1:] == any_graph.commits.list()[1:]
    assert_at_rest(any_graph)


def test_a_deleted_branch_is_gone_and_its_name_free(any_graph: Graph, any_uri: str) -> None:
    other = open_graph(any_uri, settings=workloads.settings())
    any_graph.branches.create("b")
    any_graph.branches.create("child", source="b")
    any_graph.apply(insert("old"), "b")
    assert "old" in note_ids(other, "b")
    any_graph.branches.delete("b")
    for graph in (any_graph, other):
        with pytest.raises(NotFound, match="no branch 'b'"):
            note_ids(graph, "b")
        with pytest.raises(NotFound):
            graph.apply(insert("late"), "b")
    other.branches.create("b")
    assert note_ids(any_graph, "b") == {"n0"}
    assert note_ids(other, "b") == {"n0"}
    any_graph.apply(insert("new"), "b")
    assert note_ids(other, "b") == {"n0", "new"}
    assert note_ids(other, "child") == {"n0"}
    with pytest.raises(AlreadyExists):
        any_graph.branches.create("b")
    with pytest.raises(InvalidName):
        any_graph.branches.delete("main")
    assert_at_rest(any_graph)


def test_tags_outlive_their_branch(any_graph: Graph) -> None:
    any_graph.branches.create("b")
    any_graph.apply(insert("tagged"), "b")
    tag = any_graph.tags.create("v1", "b")
    any_graph.apply(insert("later"), "b")
    any_graph.branches.delete("b")
    assert note_ids(any_graph, at="v1") == {"n0", "tagged"}
    assert any_graph.tags.list() == [tag]
    with pytest.raises(AlreadyExists):
        any_graph.tags.create("v1")
    any_graph.tags.delete("v1")
    assert any_graph.tags.list() == []
    with pytest.raises(NotFound):
        any_graph.tags.delete("v1")
    with pytest.raises(NotFound):
        any_graph.snapshot(at="v1")
    assert_at_rest(any_graph)


def test_time_travel(any_graph: Graph) -> None:
    any_graph.branches.create("b")
    any_graph.apply(insert("on-branch"), "b")
    states = {}
    for number in range(3):
        receipt = any_graph.apply(insert(f"t{number}"))
        assert receipt.commit is not None
        states[receipt.commit.graph_commit_id] = (receipt.commit.created_at, note_ids(any_graph))
    first = next(iter(states))
    any_graph.tags.create("by/commit", first)
    moment = write_micros(states[first][0])
    any_graph.tags.create("by-moment", moment)
    for commit_id, (created_at, expected) in states.items():
        assert note_ids(any_graph, at=commit_id) == expected
        assert note_ids(any_graph, at=write_micros(created_at)) == expected
        just_before = write_micros(created_at - 1)
        assert note_ids(any_graph, at=just_before) < expected
    for tag in ("by/commit", "by-moment"):
        assert note_ids(any_graph, at=tag) == states[first][1]
    head = any_graph.commits.list("b")[0].graph_commit_id
    assert note_ids(any_graph, at=head) == {"n0", "on-branch"}, "found on another branch"
    late = write_micros(max(t for t, _ in states.values()) + 10**9)
    assert note_ids(any_graph, "b", at=late) == {"n0", "on-branch"}
    with pytest.raises(NotFound):
        any_graph.snapshot(at="2001-01-01T00:00:00Z")
    with pytest.raises(InvalidArgument, match="needs an offset"):
        any_graph.snapshot(at="2099-01-01T00:00:00")
    assert_history_readable(any_graph)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a/..", "a//b", "/a", "a/", "__x", "a b", "a:b", "a@b", "a~b", "a" * 181],
)
def test_bad_names_are_refused_with_the_rule(graph: Graph, name: str) -> None:
    for create in (graph.branches.create, graph.tags.create):
        with pytest.raises(InvalidName, match="letters, digits") as caught:
            create(name)
        assert caught.value.name == name
    assert [b.name for b in graph.branches.list()] == ["main"]


def test_main_cannot_be_created(graph: Graph) -> None:
    with pytest.raises(InvalidName):
        graph.branches.create("main")


@pytest.mark.parametrize("name", ["ä/Ö", "v1.2-rc_3", ".hidden", "a/.b", "x.json", "z" * 180])
def test_unusual_good_names_work(any_graph: Graph, name: str) -> None:
    any_graph.branches.create(name)
    any_graph.apply(insert("n1"), name)
    any_graph.tags.create(name, name)
    assert [b.name for b in any_graph.branches.list()] == ["main", name]
    assert [t.name for t in any_graph.tags.list()] == [name]
    assert note_ids(any_graph, at=name) == {"n0", "n1"}
    any_graph.branches.delete(name)
    assert [b.name for b in any_graph.branches.list()] == ["main"]


@pytest.mark.parametrize(
    "text", ["x" * 300, "a b", "nul\0", "../../etc", "", "01ARZ3NDEKTSV4RRFFQ69G5FAV"]
)
def test_time_travel_to_nowhere_says_so(graph: Graph, text: str) -> None:
    with pytest.raises(NotFound, match="no commit, tag or branch"):
        graph.snapshot(at=text)


def test_one_name_in_two_unicode_forms(graph: Graph) -> None:
    graph.branches.create("caf\u00e9")
    graph.apply(insert("n1"), "cafe\u0301")
    assert note_ids(graph, "caf\u00e9") == {"n0", "n1"}
    graph.tags.create("t\u00e9", "cafe\u0301")
    assert note_ids(graph, at="te\u0301") == {"n0", "n1"}
    graph.tags.delete("te\u0301")
    graph.branches.delete("cafe\u0301")
    assert [b.name for b in graph.branches.list()] == ["main"]


# --- several processes --------------------------------------------------------------------------


def test_two_processes_racing(any_graph: Graph, any_uri: str) -> None:
    children = [
        start(
            W + "racing_writer",
            {"uri": any_uri, "name": f"w{n}", "own_table": "Note", "commits": 5},
        )
        for n in range(2)
    ]
    results = [child.finish() for child in children]
    assert [code for code, *_ in results] == [0, 0], results
    done = [r["done"] for _, reports, _ in results for r in reports if isinstance(r, dict)]
    assert len(done) == 10
    assert note_ids(any_graph) == {"n0", *done}
    assert len(any_graph.commits.list()) == 12
    assert_at_rest(any_graph)


@pytest.mark.crash
@pytest.mark.parametrize("point", ["commit.after_advance_first", "commit.after_advance"])
def test_a_killed_writer_is_recovered(any_uri: str, point: str) -> None:
    graph = workloads.create_small_graph(any_uri, lease=LEASE)
    before = content(graph)
    child = start(
        W + "write_three_tables", {"uri": any_uri, "lease": LEASE}, failpoints=f"{point}=kill"
    )
    code, _, stderr = child.finish()
    assert code == -signal.SIGKILL, stderr
    began = time.monotonic()
    graph.apply(insert("next"))
    waited = time.monotonic() - began
    assert waited < LEASE + 10
    if any_uri.startswith("s3:"):
        assert waited >= LEASE, "on S3 only the lease tells that a writer is dead"
    found = content(graph)
    assert found["Note"].pop("next")
    forward = point == "commit.after_advance"
    assert set(found["Note"]) == ({"n0", "n1"} if forward else {"n0"})
    assert (found["Person"] == before["Person"]) is not forward
    audits = graph.recoveries()
    assert [a.recovery_kind for a in audits] == ["rolled_forward" if forward else "rolled_back"]
    assert audits[0].recovery_for_actor == "victim"
    assert_at_rest(graph)
    assert_history_readable(graph)

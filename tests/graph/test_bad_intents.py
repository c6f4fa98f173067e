"""Intents that cannot be read, written, listed or removed, and tables behind their pin."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph import failpoints
from omnigraph.commit.intents import Intent, IntentBoard, IntentKind
from omnigraph.commit.request import WriteRequest
from omnigraph.errors import (
    CorruptIntent,
    ExpectedVersionMismatch,
    InvariantViolation,
    NotFound,
    StorageFailure,
)
from omnigraph.failpoints import FailpointRaised
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.lance_store.objects.control_files import LocalFiles
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import node_table
from omnigraph.writes.changeset import ChangeSet
from omnigraph.writes.shape import Edit, shape_edits
from omnigraph_testing import workloads
from omnigraph_testing.invariants import assert_at_rest, content

ONE_NOTE = {"Note": {"insert": [{"id": "n1", "text": "x"}]}}


def die_at(graph: Graph, point: str, edits: dict = ONE_NOTE) -> Path:
    """Leave the intent of a writer that died at `point`; the graph's own handle stays usable."""
    failpoints.arm(point, "raise")
    with pytest.raises(FailpointRaised):
        graph.apply(edits)
    failpoints.disarm_all()
    (intent,) = Path(graph.uri, "__recovery").glob("*.json")
    return intent


def without(name: str) -> Callable[[dict], dict]:
    return lambda body: {k: v for k, v in body.items() if k != name}


def changed(**values: object) -> Callable[[dict], dict]:
    return lambda body: {**body, **values}


SPOILED = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "one byte short": lambda data: data[:-1],
    "not text": lambda data: b"\xff\xfe" + data,
    "not an object": lambda data: b"[1, 2]",
    "null": lambda data: b"null",
    **{
        name: lambda data, spoil=spoil: json.dumps(spoil(json.loads(data))).encode()
        for name, spoil in {
            "unknown format": changed(format=2),
            "no format": without("format"),
            "no publication": without("publication"),
            "unknown kind": changed(kind="banana"),
            "branch of another shape": changed(branch={"nom": "main"}),
            "publication of another shape": changed(publication={"intent_id": "x"}),
            "bad move": lambda body: changed(
                publication={**body["publication"], "moves": [{"expected": None}]}
            )(body),
            "lease is no number": changed(lease_seconds="long"),
            "another intent's id": changed(intent_id="01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        }.items()
    },
}


@pytest.mark.parametrize("how", SPOILED)
def test_an_unreadable_intent_stops_writes_not_reads(graph: Graph, uri: str, how: str) -> None:
    graph.branches.create("b")
    before = content(graph)
    intent = die_at(graph, "commit.after_advance")
    spoiled = SPOILED[how](intent.read_bytes())
    intent.write_bytes(spoiled)

    refused: list[Callable[[], object]] = [
        lambda: open_graph(uri, settings=workloads.settings()),
        lambda: graph.apply({"Person": {"upsert": [{"name": "zoe"}]}}),
        lambda: graph.branches.create("c"),
        lambda: graph.branches.delete("b"),
        lambda: graph.tags.create("t"),
        graph.refresh,
    ]
    for write in refused:
        with pytest.raises(CorruptIntent) as caught:
            write()
        assert caught.value.file == f"__recovery/{intent.name}"
        assert "repair" in str(caught.value)
    assert intent.read_bytes() == spoiled, "it is kept for whoever looks at it"
    assert [p.name for p in intent.parent.iterdir()] == [intent.name], "nothing else is left"
    assert content(open_graph(uri, read_only=True)) == before
    assert content(graph) == before

    intent.unlink()  # what `repair --force` does after a look
    assert graph.apply({"Note": {"insert": [{"id": "n2", "text": "x"}]}}).commit is not None
    assert set(content(graph)["Note"]) == {"n0", "n2"}, "the unpublished row stays unpublished"
    assert_at_rest(graph)


def test_files_of_others_in_the_folder_are_left_alone(graph: Graph, uri: str) -> None:
    foreign = Path(uri, "__recovery", "README.txt")
    foreign.parent.mkdir(exist_ok=True)
    foreign.write_text("hello")
    assert open_graph(uri, settings=workloads.settings()).apply(ONE_NOTE).commit is not None
    assert foreign.read_text() == "hello"


def remove_newest_versions(graph: Graph, type_name: str, count: int) -> None:
    pin = graph.snapshot().pin(node_table(type_name))
    versions = Path(graph.uri, pin.location, "_versions")
    for newest in sorted(versions.glob("*.manifest"))[:count]:  # Lance names them downwards
        newest.unlink()


@pytest.mark.parametrize("point", ["commit.after_revalidate", "commit.after_advance"])
def test_a_table_behind_its_pin_is_not_touched(graph: Graph, uri: str, point: str) -> None:
    graph.apply({"Note": {"insert": [{"id": "n9", "text": "x"}]}})
    intent = die_at(graph, point, workloads.THREE_TABLES)
    body = intent.read_bytes()
    remove_newest_versions(graph, "Note", 2 if point == "commit.after_advance" else 1)
    head = graph.commits.list()[0]
    for _ in range(2):
        with pytest.raises(InvariantViolation) as caught:
            open_graph(uri, settings=workloads.settings())
        assert "node:Note" in str(caught.value)
        assert intent.name.removesuffix(".json") in str(caught.value)
    with pytest.raises(InvariantViolation):
        graph.apply({"Note": {"insert": [{"id": "n3", "text": "x"}]}})
    assert intent.read_bytes() == body
    reader = open_graph(uri, read_only=True)
    assert reader.commits.list()[0] == head
    assert set(content_of(reader, "Person")) == {"ada", "bob"}
    assert reader.recoveries() == []


def content_of(graph: Graph, type_name: str) -> list[str]:
    return graph.read(type_name, columns=["id"]).column("id").to_pylist()


def test_a_missing_table_of_a_dead_intent_is_not_touched(graph: Graph, uri: str) -> None:
    intent = die_at(graph, "commit.after_advance")
    pin = graph.snapshot().pin(node_table("Note"))
    Path(uri, pin.location).rename(Path(uri, "moved-away"))
    with pytest.raises(InvariantViolation, match="node:Note"):
        open_graph(uri, settings=workloads.settings())
    assert intent.exists()
    Path(uri, "moved-away").rename(Path(uri, pin.location))
    fresh = open_graph(uri, settings=workloads.settings())
    assert set(content_of(fresh, "Note")) == {"n0", "n1"}
    assert_at_rest(fresh)


def test_an_intent_of_a_branch_whose_manifest_is_missing_is_kept(graph: Graph, uri: str) -> None:
    graph.branches.create("b")
    graph.apply({"Note": {"insert": [{"id": "nb", "text": "x"}]}}, "b")
    failpoints.arm("commit.after_advance", "raise")
    with pytest.raises(FailpointRaised):
        graph.apply(ONE_NOTE, "b")
    failpoints.disarm_all()
    (intent,) = Path(uri, "__recovery").glob("*.json")
    tree = Path(uri, "__manifest", "tree")
    tree.rename(Path(uri, "moved-away"))
    with pytest.raises(NotFound, match="missing from storage"):
        open_graph(uri, settings=workloads.settings())
    assert intent.exists(), "a branch that still has its name is not gone"
    Path(uri, "moved-away").rename(tree)
    fresh = open_graph(uri, settings=workloads.settings())
    assert "n1" in set(fresh.read("Note", "b").column("id").to_pylist())
    assert_at_rest(fresh)


# --- intent I/O that fails ----------------------------------------------------------------------


def failing(
    monkeypatch: pytest.MonkeyPatch, method: str, matches: Callable[[str], bool]
) -> list[str]:
    """Make one door of the control files fail for matching keys; the keys it failed for."""
    real = getattr(LocalFiles, method)
    failed: list[str] = []

    def door(self: LocalFiles, key: str, *rest: object) -> object:
        if matches(key):
            failed.append(key)
            raise StorageFailure(f"storage failed while {method} {key}: injected")
        return real(self, key, *rest)

    monkeypatch.setattr(LocalFiles, method, door)
    return failed


def test_put_fails_nothing_moves(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    before = content(graph)
    with monkeypatch.context() as patch:
        failed = failing(patch, "put_held", lambda key: key.endswith(".json"))
        with pytest.raises(StorageFailure, match="injected"):
            graph.apply(workloads.THREE_TABLES)
        with pytest.raises(StorageFailure, match="injected"):
            graph.branches.create("b")
    assert len(failed) == 2
    assert content(graph) == before
    assert_at_rest(graph)
    assert graph.apply(workloads.THREE_TABLES).commit is not None


def test_delete_fails_is_a_warning(
    graph: Graph, uri: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        failed = failing(patch, "delete", lambda key: key.endswith(".json"))
        receipt = graph.apply(ONE_NOTE)
        (intent,) = failed
        assert intent.startswith("__recovery/")
        assert [r.levelname for r in caplog.records] == ["WARNING"]
    assert receipt.commit is not None
    (stale,) = Path(uri, "__recovery").iterdir()
    assert open_graph(uri, read_only=True).commits.list()[0] == receipt.commit
    assert graph.apply({"Note": {"insert": [{"id": "n2", "text": "x"}]}}).commit is not None
    assert not stale.exists(), "the next heal consumed it"
    assert graph.recoveries() == [], "a finished write needed no recovery"
    assert_at_rest(graph)


def test_delete_fails_after_branch_and_tag_work(
    graph: Graph, uri: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    graph.branches.create("old")
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        failing(patch, "delete", lambda key: "__recovery/" in key)
        graph.branches.create("b")
        graph.tags.create("t")
        graph.branches.delete("old")
    assert [b.name for b in graph.branches.list()] == ["main", "b"]
    assert [t.name for t in graph.tags.list()] == ["t"]
    assert len(list(Path(uri, "__recovery").iterdir())) == 3
    fresh = open_graph(uri, settings=workloads.settings())
    assert [b.name for b in fresh.branches.list()] == ["main", "b"]
    assert_at_rest(fresh)


def test_delete_fails_does_not_hide_why_a_write_was_refused(
    graph: Graph, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Withdrawing an intent before anything moved: the reason matters, not the leftover."""
    other = open_graph(uri, settings=workloads.settings())
    key = node_table("Note")

    def build(snapshot: Snapshot) -> ChangeSet:
        other.apply({"Note": {"insert": [{"text": "between"}]}})
        return shape_edits(snapshot.catalog, {"Note": Edit(delete=["n0"])}, lambda: "", 0)

    request = WriteRequest("main", "apply", (key,), repreparable=False, long_build=True)
    mine: list[str] = []

    def is_mine(name: str) -> bool:
        return bool(mine) and mine[0] in name

    real = IntentBoard.post

    def post(self: IntentBoard, intent: Intent) -> object:
        if self is graph.engine.board and intent.kind is not IntentKind.HOLD:
            mine.append(intent.intent_id)
        return real(self, intent)

    with monkeypatch.context() as patch:
        patch.setattr(IntentBoard, "post", post)
        failing(patch, "delete", is_mine)
        with pytest.raises(ExpectedVersionMismatch):
            graph.engine.transaction.run(request, build)
    assert graph.apply(ONE_NOTE).commit is not None
    assert_at_rest(graph)


def test_listing_fails_is_loud(graph: Graph, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = content(graph)
    with monkeypatch.context() as patch:
        failing(patch, "list", lambda key: key == "__recovery")
        for write in (
            lambda: graph.apply(ONE_NOTE),
            lambda: open_graph(uri),
            lambda: graph.branches.create("b"),
            graph.refresh,
        ):
            with pytest.raises(StorageFailure, match="injected"):
                write()
        assert content(open_graph(uri, read_only=True)) == before
    assert content(graph) == before
    assert_at_rest(graph)


def test_a_failed_audit_row_is_written_later(
    graph: Graph, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recovery is published, its row in the audit dataset is not: one row in the end."""
    die_at(graph, "commit.after_advance")
    failpoints.arm("recovery.after_publish", "raise")
    with pytest.raises(FailpointRaised):
        graph.refresh()
    failpoints.disarm_all()
    assert graph.recoveries() == []
    graph.refresh()
    assert [a.recovery_kind for a in graph.recoveries()] == ["rolled_forward"]
    assert_at_rest(graph)

"""Names of branches and tags: who may have one, and what a change of it leaves."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph import failpoints
from omnigraph.errors import AlreadyExists, InvalidName, NotFound, OmnigraphError
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.lance_store.dataset_branches import create_branch
from omnigraph.manifest.reader import manifest_version
from omnigraph_testing import workloads
from omnigraph_testing.crash import start
from omnigraph_testing.invariants import assert_at_rest, content

NEW_NOTE = {"Note": {"insert": [{"id": "new", "text": "new"}]}}


def test_no_tag_is_called_main(graph: Graph) -> None:
    """`at="main"` must not mean anything but the branch."""
    with pytest.raises(InvalidName, match="choose another name"):
        graph.tags.create("main")
    assert graph.tags.list() == []


@pytest.mark.parametrize("again", ["caf\u00e9", "cafe\u0301"])
def test_a_rename_to_its_own_name_changes_nothing(graph: Graph, again: str) -> None:
    """Also when the name is spelled with other code points: names are compared in NFC."""
    graph.branches.create("caf\u00e9")
    graph.apply(NEW_NOTE, "caf\u00e9")
    assert graph.branches.rename("caf\u00e9", again).name == "caf\u00e9"
    assert [b.name for b in graph.branches.list()] == ["main", "caf\u00e9"]
    assert "new" in content(graph, "caf\u00e9")["Note"]
    assert_at_rest(graph)


def names(graph: Graph) -> list[str]:
    return [branch.name for branch in graph.branches.list()]


def fork_as_earlier_releases_did(graph: Graph, name: str, source: str) -> None:
    """The fork keeps the name its source got by a rename: such graphs are out there."""
    lifecycle = graph.engine.lifecycle
    source_ref, ref = lifecycle._new_ref(name, source, None)
    at = manifest_version(source_ref, graph.engine.reader.state(source_ref).version)
    create_branch(graph.engine.store, at, ref.incarnation)
    assert graph.engine.reader.branch_refs.create(ref)


@pytest.mark.parametrize("fork", [fork_as_earlier_releases_did, None])
def test_a_fork_of_a_renamed_branch_has_its_own_name(
    graph: Graph, fork: Callable[[Graph, str, str], None] | None
) -> None:
    graph.branches.create("old")
    graph.apply(NEW_NOTE, "old")
    graph.branches.rename("old", "new")
    if fork is not None:
        fork(graph, "z", "new")
    else:
        assert graph.branches.create("z", "new").name == "z"
        assert graph.engine.reader.branch("z")[1].name == "z", "read without a look at other refs"
    graph.branches.create("child", "z")
    for handle in (graph, open_graph(graph.uri, settings=workloads.settings())):
        assert names(handle) == ["main", "child", "new", "z"]
        handle.apply({"Note": {"upsert": [{"id": "on-z", "text": "x"}]}}, "z")
        assert set(content(handle, "z")["Note"]) == {"n0", "new", "on-z"}
        assert set(content(handle, "new")["Note"]) == {"n0", "new"}
        assert set(content(handle, "child")["Note"]) == {"n0", "new"}
    graph.branches.rename("z", "y")
    graph.branches.delete("new")
    graph.branches.rename("y", "new")
    assert names(graph) == ["main", "child", "new"]
    assert "on-z" in content(graph, "new")["Note"]
    assert_at_rest(graph)


def test_a_load_into_a_fresh_branch_of_a_renamed_one(graph: Graph, tmp_path: Path) -> None:
    graph.branches.create("old")
    graph.branches.rename("old", "new")
    good, bad = tmp_path / "good.ndjson", tmp_path / "bad.ndjson"
    good.write_text('{"type": "Note", "data": {"id": "loaded", "text": "x"}}\n')
    bad.write_text('{"type": "Nothing", "data": {}}\n')
    with pytest.raises(OmnigraphError):
        graph.load(bad, branch="imported", from_branch="new")
    assert names(graph) == ["main", "new"]
    graph.load(good, branch="imported", from_branch="new")
    assert set(content(graph, "imported")["Note"]) == {"n0", "loaded"}
    assert_at_rest(graph)


RENAME_POINTS = {
    "branch.rename_after_mark": "old",
    "branch.rename_after_ref": "new",
    "branch.before_unref": "new",
}
"""Where a rename may be killed, and the one name the branch has then."""


@pytest.mark.crash
@pytest.mark.parametrize(("point", "name"), RENAME_POINTS.items())
def test_a_rename_cut_short_leaves_one_name(graph: Graph, point: str, name: str) -> None:
    """Were there two, deleting the superfluous one would delete the branch."""
    graph.branches.create("old")
    graph.apply(NEW_NOTE, "old")
    workload = "omnigraph_testing.workloads:rename_branch"
    code, _, _ = start(workload, {"uri": graph.uri}, failpoints=f"{point}=kill").finish()
    assert code == -signal.SIGKILL
    for handle in (graph, open_graph(graph.uri, settings=workloads.settings())):
        assert names(handle) == ["main", name]
        assert "new" in content(handle, name)["Note"]
        for other in {"old", "new"} - {name}:
            with pytest.raises(NotFound):
                handle.branches.delete(other)
    if name == "old":
        graph.branches.rename("old", "new")
    graph.branches.create("old")
    assert names(graph) == ["main", "new", "old"]
    assert "new" not in content(graph, "old")["Note"]
    assert "new" in content(graph, "new")["Note"]
    assert_at_rest(graph)


def test_cleanup_drops_what_a_killed_rename_left(graph: Graph) -> None:
    graph.branches.create("old")
    workload = "omnigraph_testing.workloads:rename_branch"
    kill = "branch.rename_after_ref=kill"
    start(workload, {"uri": graph.uri}, failpoints=kill).finish()
    refs = graph.engine.reader.branch_refs
    assert refs.names() == ["main", "new", "old"]
    graph.cleanup(confirm=True)
    assert refs.names() == ["main", "new"]
    assert names(graph) == ["main", "new"]


def test_a_rename_cut_short_can_go_back(graph: Graph) -> None:
    graph.branches.create("old")
    graph.apply(NEW_NOTE, "old")
    failpoints.arm("branch.rename_after_ref", "raise")
    with pytest.raises(failpoints.FailpointRaised):
        graph.branches.rename("old", "new")
    failpoints.disarm_all()
    assert names(graph) == ["main", "new"]
    graph.branches.rename("new", "old")
    assert names(graph) == ["main", "old"]
    assert "new" in content(graph, "old")["Note"]
    assert_at_rest(graph)


def test_an_interrupted_rename_takes_its_mark_back(graph: Graph) -> None:
    graph.branches.create("old")
    failpoints.arm("branch.rename_after_mark", "raise")
    with pytest.raises(failpoints.FailpointRaised):
        graph.branches.rename("old", "new")
    failpoints.disarm_all()
    assert graph.engine.reader.branch("old")[1].name == "old"
    assert names(graph) == ["main", "old"]


def test_the_new_name_goes_to_the_first_who_takes_it(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    rival = open_graph(graph.uri, settings=workloads.settings())
    graph.branches.create("old")
    graph.apply(NEW_NOTE, "old")
    when_passing(monkeypatch, "branch.rename_after_mark", lambda: rival.branches.create("new"))
    with pytest.raises(AlreadyExists):
        graph.branches.rename("old", "new")
    for handle in (graph, rival):
        assert names(handle) == ["main", "new", "old"]
        assert "new" in content(handle, "old")["Note"]
        assert "new" not in content(handle, "new")["Note"]
    assert_at_rest(graph)


@pytest.mark.parametrize("late", ["delete", "rename"])
def test_who_waited_for_a_rename_does_not_touch_the_renamed_branch(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    """`delete("old")` found the branch, then waited until it had become `new`."""
    rival = open_graph(graph.uri, settings=workloads.settings())
    graph.branches.create("old")
    call = {
        "delete": lambda: graph.branches.delete("old"),
        "rename": lambda: graph.branches.rename("old", "third"),
    }[late]
    when_passing(monkeypatch, "commit.before_arm", lambda: rival.branches.rename("old", "new"))
    with pytest.raises(NotFound, match="was renamed to"):
        call()
    for handle in (graph, rival):
        assert names(handle) == ["main", "new"]
    assert_at_rest(graph)


@pytest.mark.parametrize("by_another", [False, True])
def test_a_deleted_branch_is_not_kept_in_memory(graph: Graph, by_another: bool) -> None:
    other = open_graph(graph.uri, settings=workloads.settings())
    graph.branches.create("b")
    graph.apply(NEW_NOTE, "b")
    ref, _ = graph.engine.reader.branch("b")
    (other if by_another else graph).branches.delete("b")
    with pytest.raises(NotFound):
        graph.read("Note", "b")
    assert graph.engine.reader.last_known(ref) is None


def when_passing(monkeypatch: pytest.MonkeyPatch, point: str, action: Callable[[], object]) -> None:
    """Do something else, once, in the middle of an operation."""
    original = failpoints.hit
    pending = [action]

    def hit(name: str) -> None:
        original(name)
        if name == point and pending:
            pending.pop()()

    monkeypatch.setattr(failpoints, "hit", hit)

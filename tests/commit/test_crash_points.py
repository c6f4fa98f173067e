"""Kill -9 at every named point; then: all or nothing, HEAD is the pin, one audit row."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from omnigraph import failpoints
from omnigraph.errors import AlreadyExists, NotFound
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph_testing import workloads
from omnigraph_testing.crash import start
from omnigraph_testing.invariants import assert_at_rest, assert_history_readable, content

pytestmark = pytest.mark.crash

W = "omnigraph_testing.workloads:"

NOTHING = {
    "commit.after_fork_branch",
    "commit.after_fork_publish",
    "commit.after_stage",
    "commit.before_arm",
}
ROLLED_BACK = {"commit.after_arm", "commit.after_revalidate", "commit.after_advance_first"}
ROLLED_FORWARD = {
    "commit.after_advance",
    "commit.before_publish",
    "publish.after_history",
    "publish.after_stage",
}
FINISHED = {"publish.after_swap", "commit.after_publish", "commit.after_disarm"}
ON_A_FORKED_BRANCH_ONLY = {"commit.after_fork_branch", "commit.after_fork_publish"}


def kill_at(point: str, workload: str, **arguments: object) -> None:
    code, _, stderr = start(W + workload, arguments, failpoints=f"{point}=kill").finish()
    assert code == -signal.SIGKILL, f"{point} was not reached (exit {code}): {stderr}"


def expect(graph: Graph, branch: str, before: dict, point: str) -> None:
    after = {
        "Person": {
            "ada": {"id": "ada", "name": "ada", "age": 10},
            "bob": {"id": "bob", "name": "bob", "age": 2},
            "cy": {"id": "cy", "name": "cy", "age": 3},
        },
        "Note": {
            "n0": {"id": "n0", "text": "first"},
            "n1": {"id": "n1", "text": "second"},
        },
    }
    wanted = after if point in ROLLED_FORWARD | FINISHED else before
    assert content(graph, branch) == wanted


def test_every_commit_point_has_an_expectation() -> None:
    known = NOTHING | ROLLED_BACK | ROLLED_FORWARD | FINISHED
    assert set(failpoints.COMMIT_POINTS) | set(failpoints.PUBLISH_POINTS) == known


@pytest.mark.parametrize("point", failpoints.COMMIT_POINTS + failpoints.PUBLISH_POINTS)
def test_commit_is_all_or_nothing(graph: Graph, uri: str, point: str) -> None:
    branch = "review" if point in ON_A_FORKED_BRANCH_ONLY else "main"
    if branch != "main":
        graph.branches.create(branch)
    before = content(graph, branch)
    kill_at(point, "write_three_tables", uri=uri, branch=branch)

    reopened = open_graph(uri, settings=workloads.settings())

    expect(reopened, branch, before, point)
    audits = reopened.recoveries()
    assert len(audits) == (1 if point in ROLLED_BACK | ROLLED_FORWARD else 0)
    if point in ROLLED_FORWARD:
        head = reopened.commits.list(branch)[0]
        assert (head.actor_id, head.message) == ("victim", "three tables")
        assert audits[0].recovery_kind == "rolled_forward"
        assert audits[0].graph_commit_id == head.graph_commit_id
        assert audits[0].recovery_for_actor == "victim"
    if point in ROLLED_BACK:
        head = reopened.commits.list(branch)[0]
        assert (head.actor_id, audits[0].graph_commit_id) == (
            "omnigraph:recovery",
            head.graph_commit_id,
        )
    assert_at_rest(reopened)
    assert_history_readable(reopened, branch)
    receipt = reopened.apply({"Person": {"upsert": [{"name": "next"}]}}, branch)
    assert receipt.commit is not None
    assert_at_rest(reopened)


@pytest.mark.parametrize("point", sorted(ROLLED_BACK | ROLLED_FORWARD))
def test_an_open_handle_recovers_on_its_next_write(graph: Graph, uri: str, point: str) -> None:
    before = content(graph)
    kill_at(point, "write_three_tables", uri=uri)
    graph.apply({"Note": {"insert": [{"id": "later", "text": "later"}]}})
    found = content(graph)
    assert found["Note"].pop("later")
    expected_notes = {"n0", "n1"} if point in ROLLED_FORWARD else set(before["Note"])
    assert set(found["Note"]) == expected_notes
    assert len(graph.recoveries()) == 1
    assert_at_rest(graph)


def test_an_intent_stays_while_its_branch_has_no_files(graph: Graph, uri: str) -> None:
    """A branch with a name and without a manifest was not deleted: it was damaged."""
    graph.branches.create("review")
    kill_at("commit.after_advance", "write_three_tables", uri=uri, branch="review")
    (manifest,) = Path(uri, "__manifest", "tree").iterdir()
    intents = sorted(Path(uri, "__recovery").iterdir())
    aside = manifest.rename(Path(uri).with_name("aside"))
    with pytest.raises(NotFound, match="review"):
        graph.refresh()
    assert set(intents) <= set(Path(uri, "__recovery").iterdir())
    aside.rename(manifest)
    reopened = open_graph(uri, settings=workloads.settings())
    assert [audit.recovery_kind for audit in reopened.recoveries()] == ["rolled_forward"]
    assert_at_rest(reopened)


@pytest.mark.parametrize("crash", ["commit.after_advance_first", "commit.after_advance"])
@pytest.mark.parametrize("point", failpoints.RECOVERY_POINTS)
def test_recovery_interrupted_anywhere_converges(
    graph: Graph, uri: str, crash: str, point: str
) -> None:
    before = content(graph)
    kill_at(crash, "write_three_tables", uri=uri)
    rolls_forward = crash == "commit.after_advance"
    only_when_rolling_back = {
        "recovery.after_cancel",
        "recovery.after_restore_first",
        "recovery.after_restore",
    }
    if rolls_forward and point in only_when_rolling_back:
        code, *_ = start(W + "only_open", {"uri": uri}, failpoints=f"{point}=kill").finish()
        assert code == 0, "rolling forward must not restore anything"
    else:
        kill_at(point, "only_open", uri=uri)

    reopened = open_graph(uri, settings=workloads.settings())

    expect(reopened, "main", before, crash)
    assert len(reopened.recoveries()) == 1
    assert_at_rest(reopened)
    assert_history_readable(reopened)
    assert reopened.apply({"Note": {"insert": [{"text": "x"}]}}).commit is not None


@pytest.mark.parametrize("point", ["commit.after_advance", "publish.after_stage"])
def test_killed_maintenance_is_rolled_back(graph: Graph, uri: str, point: str) -> None:
    for number in range(4):
        graph.apply({"Person": {"upsert": [{"name": f"p{number}"}]}})
    before, head = content(graph), graph.commits.list()[0].graph_commit_id
    kill_at(point, "optimize_all", uri=uri)
    reopened = open_graph(uri, settings=workloads.settings())
    assert content(reopened) == before
    assert [a.recovery_kind for a in reopened.recoveries()] == ["rolled_back"]
    assert reopened.commits.list()[1].graph_commit_id == head
    assert_at_rest(reopened)
    reopened.optimize()
    assert content(reopened) == before
    assert_at_rest(reopened)


@pytest.mark.parametrize("point", ["branch.create_after_physical", "branch.create_after_ref"])
def test_killed_branch_creation(graph: Graph, uri: str, point: str) -> None:
    kill_at(point, "create_one_branch", uri=uri, name="review/x")
    reopened = open_graph(uri, settings=workloads.settings())
    names = [b.name for b in reopened.branches.list()]
    assert ("review/x" in names) == (point == "branch.create_after_ref")
    if "review/x" not in names:
        reopened.branches.create("review/x")
    reopened.apply({"Note": {"insert": [{"text": "x"}]}}, "review/x")
    assert content(reopened, "review/x")["Person"] == content(reopened)["Person"]
    assert_at_rest(reopened)


@pytest.mark.parametrize(
    "point", ["branch.delete_after_mark", "branch.before_unref", "branch.delete_after_unref"]
)
def test_killed_branch_delete_is_finished(graph: Graph, uri: str, point: str) -> None:
    graph.branches.create("gone")
    graph.apply({"Note": {"insert": [{"text": "x"}]}}, "gone")
    kill_at(point, "delete_one_branch", uri=uri, name="gone")
    reopened = open_graph(uri, settings=workloads.settings())
    assert [b.name for b in reopened.branches.list()] == ["main"]
    with pytest.raises(NotFound):
        reopened.read("Note", "gone")
    reopened.branches.create("gone")
    assert content(reopened, "gone") == content(reopened)
    assert_at_rest(reopened)


@pytest.mark.parametrize("point", failpoints.INIT_POINTS)
def test_killed_init_can_be_repeated(uri: str, point: str) -> None:
    kill_at(point, "create_graph", uri=uri)
    if point == "init.after_manifest":
        with pytest.raises(AlreadyExists):
            init(uri, workloads.small_catalog())
        graph = open_graph(uri, settings=workloads.settings())
    else:
        with pytest.raises(NotFound):
            open_graph(uri)
        graph = init(uri, workloads.small_catalog(), settings=workloads.settings())
    assert graph.apply({"Note": {"insert": [{"text": "x"}]}}).commit is not None
    assert_at_rest(graph)


@pytest.mark.parametrize("point", failpoints.ROLLBACK_POINTS)
def test_killed_while_undoing_itself(graph: Graph, uri: str, point: str) -> None:
    """An orphan HEAD makes the writer restore the pin; it dies in the middle of that."""
    before = content(graph)
    workloads.leave_orphan_head(graph)
    kill_at(point, "write_three_tables", uri=uri)
    reopened = open_graph(uri, settings=workloads.settings())
    assert content(reopened) == before
    assert_at_rest(reopened)
    reopened.apply(workloads.THREE_TABLES)
    assert_at_rest(reopened)

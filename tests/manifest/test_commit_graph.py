"""History of a real graph with a window so small that most of it is in segments."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.errors import InvalidArgument, InvalidName, NotFound, PreconditionFailed
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.settings.models import HistorySettings
from omnigraph.values.temporal import write_micros
from omnigraph_testing.workloads import settings, small_catalog

COMMITS = 25


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    path: Path = tmp_path_factory.mktemp("history") / "graph.omni"
    tiny = replace(settings(), history=HistorySettings(window_low=2, window_high=4, fan_out=2))
    graph = init(path, small_catalog(), settings=tiny)
    for number in range(COMMITS):
        key = f"key-{number}" if number % 5 == 0 else None
        graph.apply({"Note": {"insert": [{"id": f"n{number}", "text": "x"}]}}, idempotency_key=key)
        if number == 10:
            graph.branches.create("b")
    graph.apply({"Note": {"insert": [{"id": "on-b", "text": "x"}]}}, "b")
    return graph


@pytest.fixture
def commits(graph: Graph) -> CommitGraph:
    return graph.engine.commits


def main_state(graph: Graph):
    return graph.engine.reader.branch("main")[1]


def test_the_walk_is_complete_and_linear(graph: Graph, commits: CommitGraph) -> None:
    walked = [s.commit for s in commits.walk(main_state(graph))]
    assert len(walked) == COMMITS + 1
    parents = [c.parent_commit_id for c in walked]
    assert parents == [*(c.graph_commit_id for c in walked[1:]), None]


def test_every_commit_is_found_and_shows_its_state(graph: Graph, commits: CommitGraph) -> None:
    walked = [s.commit for s in commits.walk(main_state(graph))][::-1]
    for number, commit in enumerate(walked):
        assert commits.find(commit.graph_commit_id) == commit
        by_id = commits.snapshot_at(commit.graph_commit_id)
        by_time = commits.snapshot_at(write_micros(commit.created_at))
        assert by_id == by_time
        assert by_id.graph_commit_id == commit.graph_commit_id
        rows = graph.read("Note", at=commit.graph_commit_id).num_rows
        assert rows == number


def test_commits_of_other_branches_are_found(graph: Graph, commits: CommitGraph) -> None:
    head = graph.commits.list("b", limit=1)[0]
    assert commits.find(head.graph_commit_id) == head
    assert commits.snapshot_at(head.graph_commit_id).graph_branch == "b"
    assert commits.find_in(main_state(graph), head.graph_commit_id) is None


def test_keys_are_found_until_they_expire(graph: Graph, commits: CommitGraph) -> None:
    state = main_state(graph)
    for number in range(0, COMMITS, 5):
        found = commits.find_by_key(state, f"key-{number}", 0, graph.actor)
        assert found is not None
        assert found.idempotency_key == f"key-{number}"
        assert commits.find_by_key(state, f"key-{number}", found.created_at, graph.actor) == found
        assert (
            commits.find_by_key(state, f"key-{number}", found.created_at + 1, graph.actor) is None
        )
    assert commits.find_by_key(state, "never used", 0, graph.actor) is None
    assert commits.find_by_key(state, "key-0", 0, "another actor") is None


def test_nowhere(commits: CommitGraph) -> None:
    with pytest.raises(NotFound, match="no commit '01ARZ"):
        commits.find("01ARZ3NDEKTSV4RRFFQ69G5FAV")
    with pytest.raises(NotFound, match="no commit as old"):
        commits.snapshot_at("1999-01-01T00:00:00Z")
    with pytest.raises(NotFound, match="no branch"):
        commits.snapshot_at("2999-01-01T00:00:00Z", "absent")


def test_a_branch_is_its_head_now(graph: Graph, commits: CommitGraph) -> None:
    head = graph.commits.list("b", limit=1)[0].graph_commit_id
    assert commits.snapshot_at("b").graph_commit_id == head
    assert commits.snapshot_at("b") == graph.snapshot("b")
    assert graph.read("Note", at="main").num_rows == COMMITS


@pytest.mark.parametrize("name", ["2026-01-01", "20260101T000000Z"])
def test_a_branch_that_reads_like_a_moment(graph: Graph, commits: CommitGraph, name: str) -> None:
    graph.branches.create(name, "b")
    assert commits.snapshot_at(name).graph_branch == name


def test_tags_and_commits_come_before_branches(graph: Graph, commits: CommitGraph) -> None:
    old = [s.commit for s in commits.walk(main_state(graph))][5].graph_commit_id
    graph.tags.create("both", old)
    graph.branches.create("both", "b")
    graph.branches.create(old)
    assert commits.snapshot_at(old).graph_commit_id == old
    assert commits.snapshot_at("both").graph_commit_id == old
    graph.branches.delete(old)
    graph.branches.create("01ARZ3NDEKTSV4RRFFQ69G5FAV", "b")
    assert commits.snapshot_at("01ARZ3NDEKTSV4RRFFQ69G5FAV") == graph.snapshot(
        "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    )


def test_a_name_nearby_is_suggested(commits: CommitGraph) -> None:
    with pytest.raises(NotFound, match="no commit, tag or branch 'mian'; did you mean 'main'"):
        commits.snapshot_at("mian")
    with pytest.raises(NotFound, match=r"no commit 'main' on any branch$"):
        commits.find("main")


def test_names_count_back_from_any_other_name(graph: Graph, commits: CommitGraph) -> None:
    newest_first = [s.commit_id for s in commits.walk(main_state(graph))]
    for number in (0, 1, 5, COMMITS):
        assert commits.resolve(f"main~{number}") == newest_first[number]
        assert commits.resolve(f"HEAD~{number}") == newest_first[number]
    assert commits.resolve("HEAD~") == newest_first[1]
    assert commits.resolve("main~2~3") == newest_first[5]
    assert commits.resolve(f"{newest_first[2]}~1") == newest_first[3]
    assert commits.resolve("HEAD", "b") == graph.branches.show("b").head_commit_id
    graph.tags.create("counted", newest_first[3])
    assert commits.resolve("counted~2") == newest_first[5]
    assert graph.read("Note", at="main~5").num_rows == COMMITS - 5
    with pytest.raises(NotFound, match=r"'main~99' is above the first commit"):
        commits.resolve("main~99")
    for wrong in ("main~x", "main~-1", "main~1.5"):
        with pytest.raises(InvalidArgument, match="a number of commits follows"):
            commits.resolve(wrong)
    for make in (graph.branches.create, graph.tags.create):
        with pytest.raises(InvalidName, match="HEAD means"):
            make("HEAD")


def test_a_unique_prefix_is_enough(graph: Graph, commits: CommitGraph) -> None:
    every = [s.commit_id for s in commits.walk(main_state(graph))]
    every.append(graph.branches.show("b").head_commit_id)
    for commit_id in every:
        short = next(
            commit_id[:length]
            for length in range(8, 27)
            if sum(other.startswith(commit_id[:length]) for other in every) == 1
        )
        assert commits.resolve(short) == commit_id
        assert commits.resolve(short.lower()) == commit_id
    with pytest.raises(NotFound, match="no commit, tag or branch '0000"):
        commits.resolve("00000000")
    with pytest.raises(NotFound, match="no commit, tag or branch"):
        commits.resolve(every[0][:7])


def test_a_prefix_of_several_commits_lists_them(commits: CommitGraph) -> None:
    """Two commits of a quarter of a second share 8 characters; all of a graph share two."""
    with pytest.raises(InvalidArgument, match=r"begins 2\d commits: .* more; give more") as e:
        commits._with_prefix("01", "main")
    assert len(e.value.candidates) == 8
    assert all(commits.find(commit_id) for commit_id in e.value.candidates)


def test_a_datetime_is_a_moment(graph: Graph, commits: CommitGraph) -> None:
    commit = graph.commits.list()[4]
    assert commit.created.tzinfo is dt.UTC
    assert commits.resolve(commit.created) == commit.graph_commit_id
    assert commits.resolve(commit.created.replace(tzinfo=None)) == commit.graph_commit_id
    elsewhere = commit.created.astimezone(dt.timezone(dt.timedelta(hours=-7)))
    assert graph.snapshot(at=elsewhere).graph_commit_id == commit.graph_commit_id
    assert commits.resolve(commit.created_at_rfc3339) == commit.graph_commit_id
    with pytest.raises(NotFound, match="no commit as old as 1999-12-31T00:00:00"):
        commits.resolve(dt.datetime(1999, 12, 31))
    with pytest.raises(InvalidArgument, match="a commit is named by"):
        commits.resolve(7)  # type: ignore[arg-type]


def test_a_commit_that_only_a_merge_has_is_found_by_its_prefix(tmp_path: Path) -> None:
    tiny = replace(settings(), history=HistorySettings(window_low=2, window_high=4, fan_out=2))
    graph = init(tmp_path / "merged.omni", small_catalog(), settings=tiny)
    graph.branches.create("side")
    brought = graph.apply({"Note": {"insert": [{"id": "s", "text": "x"}]}}, "side").commit
    graph.merge("side", delete_branch=True)
    for number in range(9):
        graph.apply({"Note": {"insert": [{"id": f"n{number}", "text": "x"}]}})
    assert brought is not None
    short = brought.graph_commit_id[:20]
    assert graph.commits.show(short) == brought
    assert graph.read("Note", at=short).num_rows == 1
    assert graph.commits.show(f"{short}~1").operation == "init"
    with pytest.raises(PreconditionFailed):
        graph.apply({"Note": {"delete": ["s"]}}, if_commit=short)
    head = graph.snapshot().graph_commit_id
    assert graph.apply({"Note": {"delete": ["s"]}}, if_commit=head[:22]).commit is not None
    with pytest.raises(PreconditionFailed):
        graph.apply({"Note": {"delete": ["n1"]}}, if_commit="nothing has this name")

"""History of a real graph with a window so small that most of it is in segments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.errors import NotFound
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.settings.models import HistorySettings
from omnigraph.values.clock import micros_to_rfc3339
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
        by_time = commits.snapshot_at(micros_to_rfc3339(commit.created_at))
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
        found = commits.find_by_key(state, f"key-{number}", not_before=0)
        assert found is not None
        assert found.idempotency_key == f"key-{number}"
        assert commits.find_by_key(state, f"key-{number}", found.created_at) == found
        assert commits.find_by_key(state, f"key-{number}", found.created_at + 1) is None
    assert commits.find_by_key(state, "never used", not_before=0) is None


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

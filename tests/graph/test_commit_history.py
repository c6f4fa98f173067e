from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph import Graph, InvalidArgument
from omnigraph.graph.commit_history import DrawnCommit, draw
from omnigraph.graph.open import init, open_graph
from omnigraph.settings.models import HistorySettings
from omnigraph_testing.workloads import settings, small_catalog


def lines(*commits: tuple[str, str]) -> list[str]:
    return draw([DrawnCommit(name, tuple(parents), name) for name, parents in commits])


def test_a_line_is_a_line() -> None:
    assert lines(("c", "b"), ("b", "a"), ("a", "")) == ["*  c", "*  b", "*  a"]


def test_a_merge_opens_a_lane_and_the_fork_closes_it() -> None:
    assert lines(("m", "cb"), ("c", "a"), ("b", "a"), ("a", "")) == [
        "*  m",
        "|\\",
        "* |  c",
        "| *  b",
        "|/",
        "*  a",
    ]


def test_criss_cross() -> None:
    drawn = lines(("x", "mr"), ("m", "ab"), ("r", "ba"), ("b", "o"), ("a", "o"), ("o", ""))
    assert next(line for line in drawn if "*" in line) == "*  x"
    assert sum("*" in line for line in drawn) == 6
    assert drawn[-1] == "*  o"


def test_parents_below_the_limit_leave_lanes_open() -> None:
    assert lines(("m", "cb"), ("c", "a")) == ["*  m", "|\\", "* |  c"]


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """A window so small that most commits are in segments."""
    tiny = replace(settings(), history=HistorySettings(window_low=2, window_high=4, fan_out=2))
    return init(tmp_path / "graph.omni", small_catalog(), settings=tiny)


def note(graph: Graph, name: str, branch: str = "main") -> None:
    graph.apply({"Note": {"upsert": [{"id": name, "text": name}]}}, branch, message=name)


def messages(graph: Graph, *, first_parent: bool = False) -> list[str]:
    found = graph.commits.list(limit=None, first_parent=first_parent)
    return [commit.message or commit.operation for commit in found]


def test_the_list_has_what_merges_brought_and_children_come_first(graph: Graph) -> None:
    graph.branches.create("a")
    graph.branches.create("b")
    for number in range(5):
        for branch in ("a", "main", "b"):
            note(graph, f"{branch}{number}", branch)
    graph.merge("b", into="a", delete_branch=True)
    graph.merge("a", delete_branch=True)
    note(graph, "last")
    listed = graph.commits.list(limit=None)
    assert len(listed) == len({c.graph_commit_id for c in listed}) == 1 + 15 + 2 + 1
    assert [c.created_at for c in listed] == sorted((c.created_at for c in listed), reverse=True)
    place = {commit.graph_commit_id: number for number, commit in enumerate(listed)}
    for commit in listed:
        for parent in (commit.parent_commit_id, commit.merged_parent_commit_id):
            assert parent is None or place[parent] > place[commit.graph_commit_id]
    assert graph.commits.list(limit=7) == listed[:7]
    assert messages(graph, first_parent=True) == [
        "last",
        "merge a into main",
        *(f"main{number}" for number in reversed(range(5))),
        "init",
    ]


def test_a_short_list_reads_no_old_history(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(12):
        note(graph, f"n{number}")
    fresh = open_graph(graph.uri, read_only=True)
    reads: list[str] = []
    history = fresh.engine.reader.history
    load = history._load
    monkeypatch.setattr(history, "_load", lambda segment: (reads.append(segment), load(segment))[1])
    assert len(fresh.commits.list(limit=2)) == 2
    assert reads == []


def changed(graph: Graph, **states: str) -> list[tuple[str, str]]:
    return [(change.op, change.id) for change in graph.diff(**states)]


def test_a_branch_is_compared_with_the_merge_base(graph: Graph) -> None:
    note(graph, "old")
    graph.branches.create("side")
    note(graph, "mine", "side")
    note(graph, "theirs")
    assert changed(graph, base="main", branch="side") == [("insert", "mine")]
    assert changed(graph, branch="side") == [("insert", "mine")]
    assert changed(graph, base="side", branch="main") == [("insert", "theirs")]
    assert changed(graph, a="main", b="side") == [("insert", "mine"), ("delete", "theirs")]
    graph.merge("main", into="side")
    note(graph, "later", "side")
    # The merge base has moved to the head of main, which the branch has now.
    assert changed(graph, branch="side") == [("insert", "later"), ("insert", "mine")]
    assert changed(graph, base="HEAD~1", branch="side~1") == [
        ("insert", "mine"),
        ("insert", "theirs"),
    ]


def test_after_a_criss_cross_the_newest_common_commit_counts(graph: Graph) -> None:
    graph.branches.create("side")
    note(graph, "m")
    note(graph, "s", "side")
    graph.branches.create("main-before")
    graph.merge("side")
    graph.merge("main-before", into="side")
    assert changed(graph, branch="side") == [("insert", "m")]


@pytest.mark.parametrize(
    "arguments",
    [{}, {"a": "main"}, {"b": "main"}, {"base": "main"}, {"a": "main", "branch": "main"}],
)
def test_half_a_diff_is_refused(graph: Graph, arguments: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument, match="diff"):
        graph.diff(**arguments)

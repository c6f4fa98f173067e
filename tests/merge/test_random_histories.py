"""Random histories on several branches, criss-cross included, against the model."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.diff.change import Change
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.lance_store.reads import row_lookup
from omnigraph.merge import operation, output, tables
from omnigraph.settings.models import HistorySettings, Settings
from omnigraph_testing.invariants import assert_at_rest
from omnigraph_testing.merge_model import Content, ModelHistory
from omnigraph_testing.merge_tasks_here import tasks_here

SCHEMA = """
node Thing {
  key: String @key
  a: I64?
  b: String?
}
"""
KEYS = ("p", "q", "r")
BRANCHES = ("main", "x", "y")
SMALL = Settings(history=HistorySettings(window_low=1, window_high=2, fan_out=2, inline_ids=1))

WRITE = st.tuples(
    st.just("write"),
    st.sampled_from(BRANCHES),
    st.sampled_from(KEYS),
    st.sampled_from(("a", "b", "delete")),
    st.integers(0, 2),
)
MERGE = st.tuples(
    st.just("merge"),
    st.permutations(BRANCHES).map(lambda names: (names[0], names[1])),
    st.sampled_from(("ours", "theirs")),
)


def edited(content: Content, key: str, what: str, value: int) -> Content:
    changed = dict(content)
    if what == "delete":
        changed.pop(("Thing", key), None)
        return changed
    old = changed.get(("Thing", key), {"id": key, "key": key, "a": None, "b": None})
    changed["Thing", key] = {**old, what: value if what == "a" else str(value)}
    return changed


def play(graph: Graph, steps: list[Any]) -> ModelHistory:
    model = ModelHistory()
    model.commit("main", graph.branches.show("main").head_commit_id, {})
    for name in BRANCHES[1:]:
        graph.branches.create(name)
        model.heads[name] = model.heads["main"]
    for step in steps:
        if step[0] == "write":
            write(graph, model, *step[1:])
        else:
            merge(graph, model, *step[1:])
        for branch in BRANCHES:
            assert held(graph, branch) == model.content(branch)
    return model


def write(graph: Graph, model: ModelHistory, branch: str, key: str, what: str, value: int) -> None:
    before = model.content(branch)
    content = edited(before, key, what, value)
    row = content.get(("Thing", key))
    edit = {"upsert": [row]} if row else {"delete": [key]}
    receipt = graph.apply({"Thing": edit}, branch)
    assert (receipt.commit is None) == (content == before)
    if receipt.commit is not None:
        model.commit(branch, receipt.commit.graph_commit_id, content)


def merge(graph: Graph, model: ModelHistory, names: tuple[str, str], strategy: str) -> None:
    source, target = names
    result = graph.merge(source, into=target, strategy=strategy)
    if model.heads[source] in model.ancestors(model.heads[target]):
        assert result.outcome == "already_up_to_date"
        return
    content, _ = model.merge(target, source, strategy)
    commit = result.commit
    assert commit is not None
    assert commit.merged_parent_commit_id == model.heads[source]
    model.commit(target, commit.graph_commit_id, content, model.heads[source])


def held(graph: Graph, branch: str) -> Content:
    return {("Thing", r["id"]): r for r in graph.read("Thing", branch).to_pylist()}


def applied(changes: Iterable[Change], content: Content) -> Content:
    """Every image before a change is what is there."""
    content = dict(content)
    for change in changes:
        assert content.pop(("Thing", change.id), None) == change.before
        if change.after is not None:
            content["Thing", change.id] = change.after
    return content


@settings(max_examples=25)
@given(st.lists(WRITE | MERGE, min_size=3, max_size=14))
def test_merged_content_is_the_models(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        play(init(Path(folder) / "g", SCHEMA, settings=SMALL), steps)


@settings(max_examples=25)
@given(
    st.lists(WRITE | MERGE, min_size=3, max_size=14),
    st.sampled_from((0, 1, 2)),
    st.sampled_from((0, 4)),
    st.sampled_from((1, 2, 1024)),
)
def test_merged_like_many_rows(
    steps: list[Any], longest_list: int, scanned_rows: int, chunk_ids: int
) -> None:
    """Rows are read by scans, and written to files before the commit."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(operation, "LARGE", 0)
        patch.setattr(output, "ROWS_IN_MEMORY", 0)
        patch.setattr(tables, "CHUNK_IDS", chunk_ids)
        patch.setattr(row_lookup, "LONGEST_LIST", longest_list)
        patch.setattr(row_lookup, "_SCANNED_ROWS_PER_ID", scanned_rows)
        play(init(Path(folder) / "g", SCHEMA, settings=SMALL), steps)


@settings(max_examples=12)
@given(st.lists(WRITE | MERGE, min_size=4, max_size=14), st.sampled_from((1, 2)))
def test_merged_by_the_tasks_of_workers(steps: list[Any], ids_per_task: int) -> None:
    with tempfile.TemporaryDirectory() as folder, tasks_here(ids_per_task):
        play(init(Path(folder) / "g", SCHEMA, settings=SMALL), steps)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=80, suppress_health_check=list(HealthCheck))
@given(
    st.lists(WRITE | MERGE, min_size=8, max_size=40),
    st.sampled_from((0, 1, 200_000)),
    st.sampled_from((1, 2, 65_536)),
)
def test_long_histories_in_small_pieces(
    steps: list[Any], rows_in_memory: int, chunk_ids: int
) -> None:
    """Merges beside others and through scratch files, diffs of all pairs, feeds from the start."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(operation, "LARGE", rows_in_memory)
        patch.setattr(output, "ROWS_IN_MEMORY", rows_in_memory)
        patch.setattr(tables, "CHUNK_IDS", chunk_ids)
        graph = init(Path(folder) / "g", SCHEMA, settings=SMALL)
        model = play(graph, steps)
        commits = list(model.commits)
        for a, b in zip(commits, reversed(commits), strict=True):
            before, after = model.commits[a].content, model.commits[b].content
            assert applied(graph.diff(a, b), before) == after
        for branch in BRANCHES:
            content: Content = {}
            page = graph.changes(branch, start="beginning", limit=2)
            while page.blocks or page.has_more:
                for block in page.blocks:
                    content = applied(block.changes, content)
                page = graph.changes(branch, page.cursor, limit=2)
            assert content == model.content(branch)
        assert_at_rest(graph)

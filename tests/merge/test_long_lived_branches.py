"""Branches that live long and are merged again and again: work follows what is new."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.diff.change import ChangeFilter
from omnigraph.diff.snapshot_diff import snapshot_changes
from omnigraph.errors import MergeConflicts
from omnigraph.graph import commit_history
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.merge import tables
from omnigraph.settings.models import HistorySettings, Settings
from omnigraph_testing.workloads import small_catalog

SMALL = Settings(history=HistorySettings(window_low=1, window_high=2, fan_out=2, inline_ids=2))


def note(graph: Graph, branch: str, *names: str) -> None:
    rows = [{"id": name, "text": f"{name} of {branch}"} for name in names]
    graph.apply({"Note": {"upsert": rows}}, branch)


@pytest.fixture
def considered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many ids each chunk of a merge looked at."""
    counts: list[int] = []
    real = tables.merge_rows

    def counting(three: Any, *rest: Any) -> Any:
        counts.append(len(three.ids))
        return real(three, *rest)

    monkeypatch.setattr(tables, "merge_rows", counting)
    return counts


@pytest.mark.parametrize("inline", [1, 1000])
def test_a_merge_after_merges_considers_only_what_came_since(
    tmp_path: Path, considered: list[int], inline: int
) -> None:
    graph = init(
        tmp_path / "g",
        small_catalog(),
        settings=Settings(history=HistorySettings(inline_ids=inline)),
    )
    note(graph, "main", *(f"old-{i}" for i in range(40)))
    graph.branches.create("r")
    for number in range(5):
        # Both move between the merges, in both directions: none of them is a fast-forward.
        note(graph, "r", *(f"r-{number}-{i}" for i in range(10)))
        note(graph, "main", f"m-{number}-a")
        assert graph.merge("r", into="main").outcome == "merged"
        note(graph, "main", f"m-{number}-b")
        note(graph, "r", f"r-{number}-late")
        assert graph.merge("main", into="r").outcome == "merged"
    considered.clear()
    note(graph, "r", "new-r")
    note(graph, "main", "new-main")
    graph.merge("r", into="main")
    assert sum(considered) == 2  # r-4-late and new-r
    considered.clear()
    graph.merge("main", into="r")
    assert graph.diff("main", "r") == []


def test_a_rule_that_was_settled_is_part_of_the_difference(tmp_path: Path) -> None:
    """Ours wins a unique value: their row, which we never touched, is not in the result."""
    schema = "node Person {\n  name: String @key\n  mail: String?\n  @unique(mail)\n}\n"
    graph = init(tmp_path / "g", schema)
    graph.apply({"Person": {"insert": [{"name": n} for n in ("ada", "bob", "cy")]}})
    graph.branches.create("r")
    graph.apply({"Person": {"upsert": [{"name": "ada", "mail": "x"}]}})
    graph.apply({"Person": {"upsert": [{"name": "bob", "mail": "x"}]}}, "r")
    with pytest.raises(MergeConflicts):
        graph.merge("r")
    merge = graph.merge("r", strategy="ours").commit
    assert merge is not None
    assert [c.id for c in graph.diff("r", "main")] == ["ada", "bob"]
    graph.merge("main", into="r")
    assert graph.diff("r", "main") == []


STEP = st.tuples(
    st.sampled_from(("main", "x", "y")),
    st.dictionaries(st.sampled_from("abcd"), st.none() | st.integers(0, 2), min_size=1),
)
MERGE = st.tuples(
    st.permutations(("main", "x", "y")).map(lambda names: (names[0], names[1])),
    st.sampled_from(("ours", "theirs")),
)


def play(graph: Graph, steps: list[Any]) -> list[str]:
    heads = []
    for where, what in steps:
        if isinstance(where, tuple):
            graph.merge(where[0], into=where[1], strategy=what)
            heads.append(graph.branches.show(where[1]).head_commit_id)
            continue
        there = set(graph.read("Person", where).column("id").to_pylist())
        upserts = [{"name": n, "age": a} for n, a in what.items() if a is not None]
        deletes = [n for n, a in what.items() if a is None and n in there]
        graph.apply({"Person": {"upsert": upserts, "delete": deletes}}, where)
        heads.append(graph.branches.show(where).head_commit_id)
    return heads


@settings(max_examples=15)
@given(st.lists(STEP | MERGE, min_size=4, max_size=12))
def test_over_merges_recorded_ids_equal_a_scan(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        graph = init(Path(folder) / "g", small_catalog(), settings=SMALL)
        for name in ("x", "y"):
            graph.branches.create(name)
        heads = play(graph, steps)
        for a, b in zip(heads, reversed(heads), strict=True):
            sides = (graph.snapshot(at=a), graph.snapshot(at=b))
            lineage = commit_history.lineage(graph.engine, *sides)
            store, everything = graph.engine.store, ChangeFilter()
            found = list(snapshot_changes(store, lineage, *sides, everything))
            assert found == list(snapshot_changes(store, None, *sides, everything))

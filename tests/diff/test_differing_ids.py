"""What the commits recorded leads to the same answer as comparing every row."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.diff.change import ChangeFilter
from omnigraph.diff.snapshot_diff import snapshot_changes
from omnigraph.graph import commit_history
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.settings.models import HistorySettings, Settings
from omnigraph_testing.workloads import small_catalog

NAMES = ("a", "b", "c", "d'")
STEP = st.tuples(
    st.sampled_from(("main", "x", "y")),
    st.dictionaries(st.sampled_from(NAMES), st.none() | st.integers(0, 2), min_size=1),
    st.sets(st.sampled_from(NAMES)),
)
# Small windows and lists: old commits sit in segments and long id lists in files.
SMALL = Settings(history=HistorySettings(window_low=1, window_high=2, fan_out=2, inline_ids=2))


def play(graph: Graph, steps: list[Any]) -> list[str]:
    commits = [graph.branches.show("main").head_commit_id]
    for branch, upserts, deletes in steps:
        if branch not in [b.name for b in graph.branches.list()]:
            graph.branches.create(
                branch, "main" if branch == "x" else graph.branches.list()[-1].name
            )
        rows = [{"name": n, "age": age} for n, age in upserts.items() if n not in deletes]
        receipt = graph.apply({"Person": {"upsert": rows, "delete": sorted(deletes)}}, branch)
        if receipt.commit is not None:
            commits.append(receipt.commit.graph_commit_id)
    return commits


@settings(max_examples=12)
@given(st.lists(STEP, min_size=2, max_size=9))
def test_recorded_ids_equal_a_scan_and_a_diff_applied_gives_the_other_side(
    steps: list[Any],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        graph = init(Path(folder) / "g", small_catalog(), settings=SMALL)
        commits = play(graph, steps)
        for a, b in zip(commits, reversed(commits), strict=True):
            sides = (graph.snapshot(at=a), graph.snapshot(at=b))
            engine, everything = graph.engine, ChangeFilter()
            lineage = commit_history.lineage(engine, *sides)
            found = list(snapshot_changes(engine.store, lineage, *sides, everything))
            assert found == list(snapshot_changes(engine.store, None, *sides, everything))
            rows = {row["id"]: row for row in graph.read("Person", at=a).to_pylist()}
            for change in found:
                assert rows.pop(change.id, None) == change.before
                if change.after is not None:
                    rows[change.id] = change.after
            assert rows == {row["id"]: row for row in graph.read("Person", at=b).to_pylist()}


def test_a_missing_change_list_is_made_up_for_by_a_scan(tmp_path: Path) -> None:
    graph = init(tmp_path / "g", small_catalog(), settings=SMALL)
    graph.branches.create("x")
    graph.apply({"Person": {"insert": [{"name": n} for n in NAMES]}}, "x")
    wanted = graph.diff("main", "x")
    for file in (tmp_path / "g" / "__history").glob("*.arrow"):
        file.unlink()
    assert graph.diff("main", "x") == wanted
    assert len(wanted) == len(NAMES)

"""Graphs below folders whose names object stores would rather not see."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from omnigraph import init, open
from omnigraph.settings.models import MaintenanceSettings, Settings
from omnigraph_testing.invariants import assert_at_rest

AT_ONCE = Settings(maintenance=MaintenanceSettings(minimum_age_seconds=0))


@pytest.mark.parametrize("name", ["josé", "a b", "a%20b", "a#b", "[x]*", "~x", "a\\b", 'x"y', "京"])
def test_a_graph_lives_below_any_folder(tmp_path: Path, name: str) -> None:
    """Lance 14 made folders beside such a one, or failed where it may not."""
    graph = init(tmp_path / name / "g", "node N { k: String @key }", settings=AT_ONCE)
    graph.apply({"N": {"insert": [{"k": "a"}]}})
    for branch in ("b", "c"):
        graph.branches.create(branch, "main" if branch == "b" else "b")
        graph.apply({"N": {"insert": [{"k": branch}]}}, branch)
    again = open(tmp_path / name / "g", settings=AT_ONCE)
    assert again.read("N", "c")["id"].to_pylist() == ["a", "b", "c"]
    assert again.optimize("c") == []
    assert again.merge("c").outcome == "fast_forward"
    again.branches.delete("b")
    again.cleanup(keep=1, confirm=True)
    assert again.read("N")["id"].to_pylist() == ["a", "b", "c"]
    assert again.verify(full=True).ok
    assert_at_rest(again)
    assert [child.name for child in tmp_path.iterdir()] == [name]
    shutil.move(tmp_path / name, tmp_path / "plain")
    moved = open(tmp_path / "plain" / "g")
    moved.repair(confirm=True)
    assert moved.read("N", "c").num_rows == 3

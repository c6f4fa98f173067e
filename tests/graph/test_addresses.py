"""A graph works wherever a directory can be, whatever the directory is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import InvalidArgument
from omnigraph.graph.open import open_graph
from omnigraph.testing import workloads
from omnigraph.testing.invariants import assert_at_rest, content


@pytest.mark.parametrize(
    "name", ["with space", "100%20", "h#y", "ä", "a:b", "[x]", "it's", "-dash", "*"]
)
def test_unusual_directories(tmp_path: Path, name: str) -> None:
    graph = workloads.create_small_graph(str(tmp_path / name))
    graph.branches.create("b")
    graph.apply({"Note": {"insert": [{"id": "n1", "text": "x"}]}}, "b")
    # Lance leaves empty directories under an encoded name beside it; what counts is the files.
    strays = [f for f in tmp_path.rglob("*") if f.is_file() and tmp_path / name not in f.parents]
    assert strays == [], "everything is in one place"
    again = open_graph(tmp_path / name, settings=workloads.settings())
    assert content(again, "b") == content(graph, "b")
    assert_at_rest(again)


def test_a_question_mark_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot contain"):
        workloads.create_small_graph(str(tmp_path / "q?x=1"))
    assert list(tmp_path.iterdir()) == []


def test_a_relative_address_outlives_a_change_of_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    graph = workloads.create_small_graph("here.omni")
    monkeypatch.chdir("/")
    graph.apply({"Note": {"insert": [{"id": "n1", "text": "x"}]}})
    assert set(content(graph)["Note"]) == {"n0", "n1"}
    assert Path(graph.uri) == tmp_path / "here.omni"
    assert_at_rest(graph)

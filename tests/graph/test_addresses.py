"""A graph works wherever a directory can be, whatever the directory is called."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from omnigraph.errors import InvalidArgument
from omnigraph.graph.open import init, open_graph
from omnigraph.settings.models import Settings, WriteSettings
from omnigraph_testing import workloads
from omnigraph_testing.invariants import assert_at_rest, content


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


def test_an_address_that_is_used_again_shows_nothing_of_the_first_graph(uri: str) -> None:
    """The process keeps caches by path: they must not outlive the files."""
    for text in ("first", "second", "third"):
        graph = workloads.create_small_graph(uri)
        for number in range(3):
            graph.apply({"Note": {"upsert": [{"id": f"n{number}", "text": text}]}})
        fresh = open_graph(uri, read_only=True)
        assert {row["text"] for row in fresh.read("Note").to_pylist()} == {text}
        assert {row["text"] for row in fresh.read("Note", ids=["n1"]).to_pylist()} == {text}
        assert_at_rest(graph)
        shutil.rmtree(uri)


def test_durable_writes_work_alike(uri: str) -> None:
    settings = Settings(write=WriteSettings(durability="fsync"))
    graph = init(uri, workloads.small_catalog(), settings=settings)
    graph.branches.create("b")
    graph.apply({"Note": {"insert": [{"id": "n1", "text": "x"}]}}, "b")
    graph.tags.create("t", "b")
    assert set(content(open_graph(uri, read_only=True), at="t")["Note"]) == {"n1"}
    assert_at_rest(graph)

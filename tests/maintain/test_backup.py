from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

import omnigraph
from omnigraph.cli.main import app
from omnigraph.errors import AlreadyExists, InvalidArgument, NotFound
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph_testing.invariants import assert_at_rest, content


@pytest.fixture
def grown(graph: Graph) -> Graph:
    graph.branches.create("b")
    for number in range(6):
        for branch in ("main", "b"):
            graph.apply({"Note": {"upsert": [{"id": f"n{number}", "text": branch}]}}, branch)
    graph.tags.create("t", "b")
    graph.optimize()
    return graph


def test_branches_tags_and_history_come_back(grown: Graph, tmp_path: Path) -> None:
    commits = {b: grown.commits.list(b, limit=None) for b in ("main", "b")}
    wanted = {
        c.graph_commit_id: content(grown, b, c.graph_commit_id) for b in commits for c in commits[b]
    }
    heads = {b: content(grown, b) for b in commits}
    report = grown.backup(tmp_path / "copy")
    assert report.branches == ("main", "b")
    shutil.rmtree(grown.uri)
    assert omnigraph.restore(tmp_path / "copy", grown.uri).files == report.files
    back = open_graph(grown.uri)
    assert {b: content(back, b) for b in commits} == heads
    assert {b: back.commits.list(b, limit=None) for b in commits} == commits
    assert content(back, at="t") == heads["b"]
    for branch, listed in commits.items():
        for commit in listed:
            found = content(back, branch, commit.graph_commit_id)
            assert found == wanted[commit.graph_commit_id]
    assert back.verify().ok
    back.apply({"Note": {"insert": [{"id": "new", "text": "x"}]}}, "b")
    assert_at_rest(back)


def test_writers_go_on_and_the_copy_is_one_moment(grown: Graph, tmp_path: Path) -> None:
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            edits = {"insert": [{"id": f"w{number}", "text": "x"}]}
            people = {"insert": [{"name": f"w{number}"}]}
            grown.apply({"Note": edits, "Person": people})

    writer = threading.Thread(target=write)
    writer.start()
    open_graph(grown.uri).backup(tmp_path / "copy")
    stop.set()
    writer.join()
    shutil.rmtree(grown.uri)
    omnigraph.restore(tmp_path / "copy", grown.uri)
    back = open_graph(grown.uri)
    assert back.verify().ok
    rows = content(back)
    notes = {i for i in rows["Note"] if i.startswith("w")}
    assert notes == {i for i in rows["Person"] if i.startswith("w")}
    assert_at_rest(back)


def test_places_that_are_taken_or_hold_no_backup(graph: Graph, tmp_path: Path) -> None:
    graph.backup(tmp_path / "copy")
    with pytest.raises(AlreadyExists):
        graph.backup(tmp_path / "copy")
    with pytest.raises(AlreadyExists):
        omnigraph.restore(tmp_path / "copy", graph.uri)
    for nested in (graph.uri, f"{graph.uri}/inside", tmp_path):
        with pytest.raises(InvalidArgument, match="beside"):
            graph.backup(nested)
    with pytest.raises(NotFound):
        omnigraph.restore(tmp_path / "nothing", tmp_path / "new")


def test_the_commands(graph: Graph, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["backup", graph.uri, str(tmp_path / "copy")])
    assert done.exit_code == 0, done.output
    back = CliRunner().invoke(app, ["restore", str(tmp_path / "copy"), str(tmp_path / "new")])
    assert back.exit_code == 0, back.output
    again = CliRunner().invoke(app, ["restore", str(tmp_path / "copy"), str(tmp_path / "new")])
    assert again.exit_code == 1

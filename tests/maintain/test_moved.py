"""A graph with written branches at another address: restored, moved, copied, linked."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pytest
from typer.testing import CliRunner

import omnigraph
from omnigraph.cli.main import app
from omnigraph.errors import GraphMoved
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph_testing.invariants import assert_at_rest, content
from omnigraph_testing.s3_server import S3Server
from omnigraph_testing.workloads import create_small_graph

BRANCHES = ("main", "b", "c", "lazy")


def grow(uri: str) -> Graph:
    """Branches of branches with rows, deletions and indexes of their own and inherited ones."""
    graph = create_small_graph(uri)
    graph.apply({"Person": {"insert": [{"name": f"p{n}", "age": n} for n in range(40)]}})
    graph.optimize()
    graph.branches.create("b")
    graph.apply({"Person": {"delete": ["p1"], "upsert": [{"name": "p2", "age": 99}]}}, "b")
    graph.branches.create("c", "b")
    for number in range(4):
        for branch in ("main", "b", "c"):
            text = f"{branch} {number}"
            graph.apply({"Note": {"upsert": [{"id": f"n{number}", "text": text}]}}, branch)
    graph.apply({"Person": {"delete": ["p3"]}}, "c")
    graph.optimize("b")
    graph.branches.create("lazy", "c")
    graph.tags.create("t", "b")
    return graph


def everything(graph: Graph) -> dict[str, object]:
    """Every branch at every commit, and the tag."""
    found: dict[str, object] = {"t": content(graph, at="t")}
    for branch in BRANCHES:
        for commit in graph.commits.list(branch, limit=None):
            found[f"{branch} {commit.graph_commit_id}"] = content(
                graph, branch, at=commit.graph_commit_id
            )
    return found


def is_whole(uri: str | Path, wanted: dict[str, object]) -> None:
    graph = open_graph(uri)
    assert everything(graph) == wanted
    assert graph.verify().findings == ()
    for branch in BRANCHES:
        graph.apply({"Person": {"upsert": [{"name": "p2", "age": 5}]}}, branch)
    graph.optimize("c")
    graph.merge("c", "main", strategy="theirs")
    assert graph.verify().findings == ()
    assert_at_rest(graph)


@pytest.mark.parametrize("name", ["elsewhere", "with space, ü and a much longer name"])
def test_restore_elsewhere(uri: str, tmp_path: Path, name: str) -> None:
    graph = grow(uri)
    wanted = everything(graph)
    graph.backup(tmp_path / "copy")
    shutil.rmtree(uri)
    omnigraph.restore(tmp_path / "copy", tmp_path / name)
    shutil.rmtree(tmp_path / "copy")
    is_whole(tmp_path / name, wanted)


def test_move(uri: str, tmp_path: Path) -> None:
    wanted = everything(grow(uri))
    moved = tmp_path / "moved" / "graph"
    moved.parent.mkdir()
    shutil.move(uri, moved)
    graph = open_graph(moved, read_only=True)
    assert content(graph)["Note"]["n3"]["text"] == "main 3"
    for branch in ("b", "c", "lazy"):
        with pytest.raises(GraphMoved, match="repair"):
            content(graph, branch)
    assert graph.verify().counts == {"moved": 1}
    shown = CliRunner().invoke(app, ["repair", str(moved)])
    assert f"moved here from {uri}" in shown.output
    done = CliRunner().invoke(app, ["repair", str(moved), "--confirm"])
    assert done.exit_code == 0, done.output
    assert open_graph(moved).repair().clean
    is_whole(moved, wanted)


def test_a_copy_does_not_live_on_the_original(uri: str, tmp_path: Path) -> None:
    wanted = everything(grow(uri))
    copy = tmp_path / "copy"
    shutil.copytree(uri, copy)
    with pytest.raises(GraphMoved):
        content(open_graph(copy), "b")
    assert open_graph(copy).for_repair().repair(confirm=True).moved_from == uri
    shutil.rmtree(uri)
    is_whole(copy, wanted)


def test_a_repair_cut_short_goes_on(uri: str, tmp_path: Path) -> None:
    wanted = everything(grow(uri))
    moved = tmp_path / "moved"
    shutil.copytree(uri, moved)
    open_graph(moved).for_repair().repair(confirm=True)
    before = {p: p.read_bytes() for p in moved.rglob("tree/*/_versions/*.manifest")}
    assert len(before) > 10
    newest = {min(p.parent.glob("*.manifest")) for p in before}
    for path in newest:  # the last ones were not reached
        path.write_bytes((Path(uri) / path.relative_to(moved)).read_bytes())
    assert open_graph(moved).for_repair().repair(confirm=True).moved_from == uri
    assert {p: p.read_bytes() for p in before} == before
    shutil.rmtree(uri)
    is_whole(moved, wanted)


def test_another_name_of_the_same_place(uri: str, tmp_path: Path) -> None:
    wanted = everything(grow(uri))
    (tmp_path / "link").symlink_to(uri)
    graph = open_graph(tmp_path / "link")
    assert everything(graph) == wanted
    assert graph.repair().clean


@pytest.mark.s3
def test_to_a_bucket_and_back(uri: str, s3: S3Server, tmp_path: Path) -> None:
    bucket = f"b{uuid.uuid4()}"
    s3.create_bucket(bucket)
    graph = grow(uri)
    wanted = everything(graph)
    graph.backup(f"s3://{bucket}/copy")
    shutil.rmtree(uri)
    omnigraph.restore(f"s3://{bucket}/copy", f"s3://{bucket}/deep/graph")
    there = open_graph(f"s3://{bucket}/deep/graph")
    assert everything(there) == wanted
    there.backup(tmp_path / "local copy")
    is_whole(there.uri, wanted)
    omnigraph.restore(tmp_path / "local copy", tmp_path / "home")
    is_whole(tmp_path / "home", wanted)

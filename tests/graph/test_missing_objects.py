"""Objects removed or damaged from outside: a named error, and everything else goes on."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.errors import (
    FormatUnknown,
    NotFound,
    OmnigraphError,
    SnapshotReclaimed,
)
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph.settings.models import HistorySettings
from omnigraph.values.identifiers import node_table
from omnigraph_testing import workloads
from omnigraph_testing.invariants import assert_at_rest

ONE_NOTE = {"Note": {"insert": [{"id": "n1", "text": "x"}]}}
ONE_PERSON = {"Person": {"upsert": [{"name": "zoe", "age": 1}]}}


def table_folder(graph: Graph, type_name: str) -> Path:
    return Path(graph.uri, graph.snapshot().pin(node_table(type_name)).location)


def test_a_missing_dataset(graph: Graph, uri: str) -> None:
    location = graph.snapshot().pin(node_table("Note")).location
    shutil.rmtree(table_folder(graph, "Note"))
    for fresh in (open_graph(uri, read_only=True), open_graph(uri, settings=workloads.settings())):
        with pytest.raises(SnapshotReclaimed) as caught:
            fresh.read("Note")
        assert location in caught.value.dataset
        assert fresh.read("Person").num_rows == 2
    with pytest.raises(NotFound, match=location):
        fresh.apply(ONE_NOTE)
    assert fresh.apply(ONE_PERSON).commit is not None, "other tables go on"
    assert list(Path(uri, "__recovery").iterdir()) == []


def test_a_missing_data_file(graph: Graph, uri: str) -> None:
    for file in table_folder(graph, "Note").glob("data/*"):
        file.unlink()
    fresh = open_graph(uri, settings=workloads.settings())
    with pytest.raises(SnapshotReclaimed, match="reading rows"):
        fresh.read("Note")
    assert fresh.apply(ONE_PERSON).commit is not None


def test_a_missing_manifest(graph: Graph, uri: str) -> None:
    shutil.rmtree(Path(uri, "__manifest"))
    for read_only in (False, True):
        with pytest.raises(NotFound, match="manifest is missing"):
            open_graph(uri, read_only=read_only)
    for use in (lambda: graph.read("Note"), lambda: graph.apply(ONE_NOTE)):
        with pytest.raises(OmnigraphError, match="__manifest"):
            use()


def test_a_missing_schema_object(graph: Graph, uri: str) -> None:
    schema_id = graph.snapshot().schema_id
    Path(uri, "__schema", f"{schema_id}.json").unlink()
    for fresh in (open_graph(uri, read_only=True), open_graph(uri, settings=workloads.settings())):
        with pytest.raises(NotFound) as caught:
            fresh.read("Note")
        assert caught.value.schema == schema_id
        assert len(fresh.commits.list()) == 2, "history is still there"
    with pytest.raises(NotFound, match=schema_id):
        fresh.apply(ONE_NOTE)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"catalog": {"nodes": 1}}'])
def test_a_damaged_schema_object(graph: Graph, uri: str, data: bytes) -> None:
    schema_id = graph.snapshot().schema_id
    Path(uri, "__schema", f"{schema_id}.json").write_bytes(data)
    with pytest.raises(FormatUnknown, match=schema_id):
        open_graph(uri, read_only=True).read("Note")


@pytest.fixture
def long_history(uri: str) -> Graph:
    settings = replace(
        workloads.settings(), history=HistorySettings(window_low=2, window_high=4, fan_out=2)
    )
    graph = init(uri, workloads.small_catalog(), settings=settings)
    for number in range(14):
        graph.apply({"Note": {"insert": [{"id": f"h{number}", "text": "x"}]}})
    return graph


def test_a_missing_history_segment(long_history: Graph, uri: str) -> None:
    commits = long_history.commits.list(limit=None)
    for segment in Path(uri, "__history").iterdir():
        segment.unlink()
    fresh = open_graph(uri, settings=workloads.settings())
    assert fresh.commits.list(limit=2) == commits[:2], "the head holds recent ones"
    with pytest.raises(SnapshotReclaimed, match="history segment"):
        fresh.commits.list(limit=None)
    with pytest.raises(SnapshotReclaimed):
        fresh.snapshot(at=commits[-1].graph_commit_id)
    assert fresh.apply(ONE_NOTE).commit is not None
    assert fresh.read("Note").num_rows == 15


@pytest.mark.parametrize("data", [b"", b'{"commits": [', b"[]", b"{}", b'{"commits": [[1]]}'])
def test_a_damaged_history_segment(long_history: Graph, uri: str, data: bytes) -> None:
    for segment in Path(uri, "__history").iterdir():
        segment.write_bytes(data)
    fresh = open_graph(uri, settings=workloads.settings())
    with pytest.raises(FormatUnknown, match="history segment"):
        fresh.commits.list(limit=None)
    assert fresh.apply(ONE_NOTE).commit is not None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"name": "b", "nom": 1}'])
def test_damaged_refs(graph: Graph, uri: str, data: bytes) -> None:
    graph.branches.create("b")
    graph.tags.create("t")
    Path(uri, "_refs", "branches", "b.json").write_bytes(data)
    Path(uri, "_refs", "tags", "t.json").write_bytes(data)
    fresh = open_graph(uri, settings=workloads.settings())
    with pytest.raises(FormatUnknown, match=r"_refs/branches/b\.json"):
        fresh.read("Note", "b")
    with pytest.raises(FormatUnknown, match=r"_refs/tags/t\.json"):
        fresh.read("Note", at="t")
    assert fresh.apply(ONE_NOTE).commit is not None, "main goes on"


def test_a_missing_manifest_of_a_branch(graph: Graph, uri: str) -> None:
    graph.branches.create("b")
    shutil.rmtree(Path(uri, "__manifest", "tree"))
    fresh = open_graph(uri, settings=workloads.settings())
    with pytest.raises(NotFound, match="missing from storage"):
        fresh.read("Note", "b")
    assert fresh.apply(ONE_NOTE).commit is not None
    assert_at_rest(open_graph(uri, settings=workloads.settings()))

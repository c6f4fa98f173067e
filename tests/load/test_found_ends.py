"""Ends of streamed edges that are looked up among the stored nodes while the input is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph.errors import SnapshotReclaimed, ValidationFailed
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph.load import found_ends, key_index, proofs, sources
from omnigraph.load.bulk_checks import BulkChecks
from omnigraph_testing.graph_helpers import meanwhile, with_parts
from omnigraph_testing.invariants import assert_at_rest

SCHEMA = """
node P { name: String @key  age: I32? }
node Q { name: String @key }
edge E: P -> P { w: I32? }
edge F: P -> Q
"""
PEOPLE = [f"p{i}" for i in range(50)]


@pytest.fixture(params=[0, 30], ids=["all looked up", "some read again"])
def folder(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A graph with fifty nodes, and blocks of seven rows; ends are looked up after some rows."""
    monkeypatch.setattr(sources, "_ROWS_PER_BATCH", 7)
    monkeypatch.setattr(key_index, "_HELD_ROWS", 20)
    monkeypatch.setattr(key_index, "MANY_ROWS", 0)
    monkeypatch.setattr(found_ends, "MANY_ROWS", request.param)
    graph = init(tmp_path / "g.omni", SCHEMA)
    graph.load(pa.table({"name": PEOPLE}), type="P", engine="local")
    graph.close()
    return tmp_path


def opened(folder: Path) -> Graph:
    graph = open_graph(folder / "g.omni")
    loader = replace(graph.engine.loader, small_input=-1, most_prepared=10)
    return with_parts(graph, loader=loader)


def edges(folder: Path, name: str = "E", count: int = 80, **ends: str) -> Path:
    path = folder / f"{name}.parquet"
    to = [ends.get(f"e{i}", f"p{i * 7 % 50}") for i in range(count)]
    start = [f"p{i % 50}" for i in range(count)]
    pq.write_table(pa.table({"from": start, "to": to}, pa.schema(_ENDS)), path)
    return path


_ENDS = [("from", pa.string()), ("to", pa.string())]


@pytest.fixture
def proven(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each node type of an edge type, whether the lookups were a proof."""
    answers = []
    were_found = BulkChecks._were_found

    def noted(self: BulkChecks, *given: Any) -> bool:
        answers.append(were_found(self, *given))
        return answers[-1]

    monkeypatch.setattr(BulkChecks, "_were_found", noted)
    return answers


def refused(graph: Graph, data: Any, lines: Sequence[int], **options: Any) -> None:
    before = len(graph.read("E"))
    with pytest.raises(ValidationFailed) as caught:
        graph.load(data, engine="local", **options)
    assert [violation["line"] for violation in caught.value.violations] == list(lines)
    assert len(graph.read("E")) == before
    assert_at_rest(graph)


def test_stored_nodes_are_found(folder: Path, proven: list[bool]) -> None:
    graph = opened(folder)
    graph.load(edges(folder), engine="local")
    assert proven == [True]
    assert len(graph.read("E")) == 80
    assert_at_rest(graph)


@pytest.mark.parametrize("row", [0, 6, 29, 30, 34, 35, 79])
def test_an_end_that_is_nowhere(folder: Path, row: int) -> None:
    refused(opened(folder), edges(folder, **{f"e{row}": "none"}), [row + 1])


@pytest.mark.parametrize("nodes_first", [True, False])
def test_nodes_of_the_same_load(folder: Path, proven: list[bool], nodes_first: bool) -> None:
    graph = opened(folder)
    path = folder / "P.parquet"
    pq.write_table(pa.table({"name": ["new", *(f"n{i}" for i in range(40))]}), path)
    files = [path, edges(folder, e3="new", e40="new", e77="n39")]
    graph.load(files if nodes_first else files[::-1], engine="local")
    assert proven == [True]
    assert len(graph.read("E")) == 80
    refused(graph, edges(folder, e3="new", e40="n40"), [41])


def test_more_ends_of_new_nodes_than_are_kept(
    folder: Path, proven: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proofs, "_MOST_MISSING", 1)
    graph = opened(folder)
    new = {"P": pa.table({"name": ["a", "b"]}), "E": pq.read_table(edges(folder, e40="a", e50="b"))}
    graph.load(new, engine="local")
    assert proven == [False], "the ends were read again"
    assert len(graph.read("E")) == 80
    refused(graph, edges(folder, e40="x", e50="y", e60="a"), [41, 51])


def test_two_types_of_ends(folder: Path, proven: list[bool]) -> None:
    graph = opened(folder)
    graph.load(pa.table({"name": ["p1", "q"]}), type="Q", engine="local")
    graph.load(edges(folder, "F", **{f"e{i}": ["p1", "q"][i % 2] for i in range(80)}))
    assert proven == [True, True]
    wrong = {f"e{i}": "q" for i in range(80)} | {"e44": "p2"}
    refused(graph, edges(folder, "F", **wrong), [45])


def test_a_node_that_another_writer_removes(
    folder: Path, proven: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = opened(folder)
    meanwhile(
        monkeypatch,
        "load.after_prepare",
        lambda: open_graph(folder / "g.omni").apply({"P": {"delete": ["p49"]}}),
    )
    refused(graph, edges(folder, count=49, e40="p49"), [8, 41])
    assert proven == [False]


def test_a_node_that_another_writer_removes_after_the_checks(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = opened(folder)
    meanwhile(
        monkeypatch,
        "load.after_check",
        lambda: open_graph(folder / "g.omni").apply({"P": {"delete": ["p49"]}}),
    )
    refused(graph, edges(folder, count=49, e40="p49"), [8, 41])


def test_rows_that_another_writer_adds_or_compacts(
    folder: Path, proven: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = opened(folder)
    open_graph(folder / "g.omni").apply({"P": {"insert": [{"name": "late"}]}})
    meanwhile(monkeypatch, "load.after_prepare", lambda: open_graph(folder / "g.omni").optimize())
    graph.load(edges(folder, e70="late"), engine="local")
    assert proven == [True], "a compaction changes no row"
    assert len(graph.read("E")) == 80


def test_stored_nodes_that_cleanup_removed(
    folder: Path, proven: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def reclaimed(_: object) -> None:
        raise SnapshotReclaimed("a file of this snapshot is not in storage any more")

    monkeypatch.setattr(found_ends, "id_batches", reclaimed)
    graph = opened(folder)
    refused(graph, edges(folder, e40="none"), [41])
    graph.load(edges(folder), engine="local")
    assert not any(proven)
    assert len(graph.read("E")) == 80


@pytest.mark.parametrize("mode", ["overwrite", "mirror"])
@pytest.mark.parametrize("nodes_first", [True, False])
def test_stored_nodes_that_the_load_removes(folder: Path, mode: str, nodes_first: bool) -> None:
    graph = opened(folder)
    path = folder / "P.parquet"
    pq.write_table(pa.table({"name": [name for name in PEOPLE if name != "p14"]}), path)
    files = [path, edges(folder, count=40)]
    modes = {"P": mode, "E": "append"}
    refused(graph, files if nodes_first else files[::-1], [3, 15], mode=modes)


def test_rejected_nodes_and_edges(folder: Path) -> None:
    graph = opened(folder)
    path = folder / "P.parquet"
    ages = pa.array([1, 2**40], pa.int64())
    pq.write_table(pa.table({"name": ["good", "bad"], "age": ages}), path)
    receipt = graph.load(
        [edges(folder, e40="bad", e41="good", e42="none"), path], engine="local", on_error="skip"
    )
    assert receipt.rejected == 3
    assert len(graph.read("E")) == 78
    assert_at_rest(graph)

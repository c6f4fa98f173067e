"""Rows that are written as fragments while the input is read, before the checks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph.errors import (
    Contention,
    InvalidArgument,
    KeyConflict,
    StorageFailure,
    ValidationFailed,
)
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph.load import key_index, sources, streamed_rows
from omnigraph.load.key_index import KeyIndex
from omnigraph.load.streamed_rows import StreamedTable
from omnigraph.settings.models import MaintenanceSettings, Settings, WriteSettings
from omnigraph_testing.graph_helpers import meanwhile, with_parts
from omnigraph_testing.invariants import assert_at_rest

SCHEMA = """
node P { name: String @key  age: I32?  made: DateTime @default(now())  @range(age, 0..150) }
edge E: P -> P { w: I32? }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Blocks of seven rows, of which the checks hold none."""
    monkeypatch.setattr(sources, "_ROWS_PER_BATCH", 7)
    monkeypatch.setattr(key_index, "_HELD_ROWS", 20)
    init(tmp_path / "g.omni", SCHEMA).close()
    return tmp_path


def opened(folder: Path, **parts: Any) -> Graph:
    """The graph, whose loads prepare ten rows of a type in a file and stream the others."""
    graph = open_graph(folder / "g.omni")
    loader = replace(graph.engine.loader, small_input=-1, most_prepared=10, **parts)
    return with_parts(graph, loader=loader)


def people(folder: Path, count: int = 100, **values: int) -> Path:
    path = folder / "P.parquet"
    ages = [values.get(f"p{i}", i) for i in range(count)]
    names = [f"p{i}" for i in range(count)]
    pq.write_table(pa.table({"name": names, "age": pa.array(ages, pa.int32())}), path)
    return path


def edges(folder: Path, count: int = 60, **ends: str) -> Path:
    path = folder / "E.parquet"
    to = [ends.get(f"e{i}", f"p{i * 7 % 100}") for i in range(count)]
    pq.write_table(pa.table({"from": [f"p{i}" for i in range(count)], "to": to}), path)
    return path


def data_files(folder: Path) -> set[str]:
    return {str(p) for p in (folder / "g.omni").rglob("data/*")}


@pytest.mark.parametrize("ending", ["", "x" * 300])
def test_nodes_alone_are_told_apart(
    folder: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other proof needs their ids, so these are compared by one hash; long ids by two."""
    monkeypatch.setattr(key_index, "MANY_ROWS", 0)
    names = [f"p{i}{ending}" for i in range(100)]
    graph = opened(folder)
    twice = pa.table({"name": [*names, names[13]]})
    with pytest.raises(ValidationFailed, match=f"{names[13]}.*the id occurs twice"):
        graph.load(twice, type="P", engine="local")
    asked: list[str] = []

    def proven(self: KeyIndex, sql: str) -> int:
        asked.append(sql)
        return count(self, sql)

    count = KeyIndex.count
    monkeypatch.setattr(KeyIndex, "count", proven)
    graph.load(pa.table({"name": names}), type="P", engine="local")
    assert asked == []
    with pytest.raises(KeyConflict):
        graph.load(pa.table({"name": ["new", names[13]]}), type="P", engine="local")
    assert_at_rest(graph)


def test_ids_of_nodes_alone_are_not_read_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: Any) -> None:
        raise AssertionError("the rows are read from their fragments")

    graph = opened(folder)
    monkeypatch.setattr(StreamedTable, "checked_rows", refuse)
    assert graph.load(people(folder), engine="local").total_entities == 100
    assert_at_rest(graph)


def test_the_fragments_are_adopted(folder: Path) -> None:
    graph = opened(folder)
    receipt = graph.load([edges(folder), people(folder)], engine="local")
    assert receipt.total_entities == 160
    assert len(data_files(folder)) == 2, "each row is written once"
    assert [row["age"] for row in graph.read("P").to_pylist() if row["name"] == "p42"] == [42]
    assert graph.read("P").column("made").null_count == 0
    assert len(set(graph.read("E").column("id").to_pylist())) == 60
    assert receipt.commit is not None
    assert sum(changes.inserted for changes in receipt.commit.changes) == 160
    assert_at_rest(graph)


def test_what_is_wrong_has_its_place(folder: Path) -> None:
    graph, before = opened(folder), data_files(folder)
    with pytest.raises(ValidationFailed) as caught:
        graph.load([edges(folder, e33="none"), people(folder, p77=151)], engine="local")
    found = [(v["file"].rpartition("/")[2], v["line"]) for v in caught.value.violations]
    assert found == [("E.parquet", 34), ("P.parquet", 78)]
    assert data_files(folder) == before
    assert_at_rest(graph)


def test_the_others_are_loaded(folder: Path) -> None:
    graph = opened(folder)
    receipt = graph.load(
        [edges(folder, e33="none"), people(folder, p77=151)], engine="local", on_error="skip"
    )
    assert receipt.rejected == 3, "an edge without an end, a person, and the edge to that person"
    assert len(graph.read("P")) == 99
    assert len(graph.read("E")) == 58
    assert_at_rest(graph)


def test_a_repeated_id(folder: Path) -> None:
    graph = opened(folder)
    path = people(folder)
    with pytest.raises(ValidationFailed, match=r"P\.parquet:\d+: .*occurs twice"):
        graph.load([path, path], engine="local")
    graph.load(path, engine="local")
    before = data_files(folder)
    with pytest.raises(KeyConflict):
        graph.load(path, engine="local")
    assert data_files(folder) == before


def test_an_unreadable_file_after_streamed_rows(folder: Path) -> None:
    graph, before = opened(folder), data_files(folder)
    (folder / "E.parquet").write_bytes(b"no parquet")
    with pytest.raises(InvalidArgument, match=r"E\.parquet"):
        graph.load([people(folder), folder / "E.parquet"], engine="local")
    assert data_files(folder) == before
    assert_at_rest(graph)


def test_a_writer_that_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object, tables: Any) -> tuple[str, ...]:
        next(iter(tables))
        raise StorageFailure("no space left")

    monkeypatch.setattr(streamed_rows, "write_stream", full)
    monkeypatch.setattr(streamed_rows, "_LOOK_SECONDS", 0.01)
    graph = opened(folder)
    with pytest.raises(StorageFailure, match="no space left"):
        graph.load(people(folder), engine="local")
    assert len(graph.read("P")) == 0
    assert_at_rest(graph)


def test_cleanup_meanwhile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = opened(folder)
    at_once = Settings(
        write=WriteSettings(lease_seconds=2.0, wait_limit_seconds=1.0),
        maintenance=MaintenanceSettings(minimum_age_seconds=0),
    )

    def clean() -> None:
        with pytest.raises(Contention):  # the load holds it off
            open_graph(folder / "g.omni", settings=at_once).cleanup(1, confirm=True)

    meanwhile(monkeypatch, "load.after_prepare", clean)
    graph.load([people(folder), edges(folder)], engine="local")
    assert (len(graph.read("P")), len(graph.read("E"))) == (100, 60)
    assert_at_rest(graph)


def test_a_commit_meanwhile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = opened(folder)
    meanwhile(
        monkeypatch,
        "load.after_prepare",
        lambda: open_graph(folder / "g.omni").apply({"P": {"insert": [{"name": "other"}]}}),
    )
    graph.load(people(folder), engine="local")
    assert len(graph.read("P")) == 101


def test_a_branch_that_shares_its_tables(folder: Path) -> None:
    graph = opened(folder)
    graph.load(people(folder), engine="local")
    graph.load(edges(folder), engine="local", branch="side", from_branch="main")
    assert len(graph.read("E")) == 0
    assert len(graph.read("E", "side")) == 60


def test_a_dry_run_writes_nothing(folder: Path) -> None:
    graph, before = opened(folder), data_files(folder)
    assert graph.load(people(folder), engine="local", dry_run=True).total_entities == 100
    assert data_files(folder) == before

"""Loads through `Graph.load`: modes, receipts, frames, files, blobs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from omnigraph import init
from omnigraph.errors import InvalidArgument, KeyConflict, NotFound, ValidationFailed
from omnigraph.graph.handle import Graph
from omnigraph.load.options import TypeCounts
from omnigraph.settings.models import LoadSettings, Settings
from omnigraph_testing.graph_helpers import exported
from omnigraph_testing.invariants import assert_at_rest
from omnigraph_testing.two_people import LINES, SCHEMA


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return init(tmp_path / "people.omni", SCHEMA)


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "people.ndjson"
    path.write_text(LINES)
    return path


def test_receipt(graph: Graph, lines: Path) -> None:
    receipt = graph.load(lines, message="first")
    assert receipt.engine_reason.startswith("0.0 MiB is less than")
    assert receipt.to_dict() | {"commit": None, "engine_reason": ""} == {
        "branch": "main",
        "base_branch": None,
        "branch_created": False,
        "mode": "append",
        "engine": "local",
        "engine_reason": "",
        "nodes": [
            asdict(TypeCounts("Note", entities_loaded=2, inserted=2)),
            asdict(TypeCounts("Person", entities_loaded=2, inserted=2)),
        ],
        "edges": [
            asdict(TypeCounts("Knows", entities_loaded=1, inserted=1)),
            asdict(TypeCounts("Wrote", entities_loaded=1, inserted=1)),
        ],
        "total_entities": 6,
        "rejected": 0,
        "commit": None,
        "repeated": False,
        "dry_run": False,
    }
    assert receipt.commit is not None
    assert (receipt.commit.operation, receipt.commit.message) == ("load", "first")
    assert len(graph.commits.list()) == 2
    assert_at_rest(graph)


def test_append_is_strict_and_merge_is_not(graph: Graph, lines: Path) -> None:
    graph.load(lines)
    before = exported(graph)
    with pytest.raises(KeyConflict) as caught:
        graph.load(lines)
    assert caught.value.ids[:2] == ["ada", "bob"]
    assert f"{lines}:2" in caught.value.message
    assert exported(graph) == before
    lines.write_text('{"type":"Person","data":{"name":"ada","age":9}}\n' * 2 + LINES)
    people = [line for line in LINES.splitlines() if '"Person"' in line or '"Note"' in line]
    lines.write_text('{"type":"Person","data":{"name":"ada","age":9}}\n' + "\n".join(people))
    assert graph.load(lines, "merge").commit is None
    assert exported(graph) == before


def test_merge_takes_the_last_of_several(graph: Graph, lines: Path) -> None:
    graph.load(lines)
    ages = [5, 9, 7]
    lines.write_text(
        "".join(f'{{"type":"Person","data":{{"name":"ada","age":{age}}}}}\n' for age in ages)
    )
    receipt = graph.load(lines, "merge")
    assert receipt.commit is not None
    changes = receipt.commit.changes[0]
    assert (changes.inserted, changes.updated, changes.deleted) == (0, 1, 0)
    assert graph.read("Person", ids=["ada"])["age"].to_pylist() == [7]


def test_overwrite_replaces_the_types_that_occur_and_cascades(graph: Graph, lines: Path) -> None:
    graph.load(lines)
    lines.write_text('{"type":"Person","data":{"name":"bob","age":40}}\n')
    receipt = graph.load(lines, "overwrite")
    assert receipt.commit is not None
    assert {str(c.key): (c.inserted, c.updated, c.deleted) for c in receipt.commit.changes} == {
        "node:Person": (0, 1, 1),
        "edge:Knows": (0, 0, 1),
        "edge:Wrote": (0, 0, 1),
    }
    assert exported(graph, types=["Person", "Knows", "Wrote"]) == (
        '{"type":"Person","data":{"name":"bob","age":40}}\n'
    )
    assert graph.read("Note").num_rows == 2


def test_frames(graph: Graph) -> None:
    graph.load(pd.DataFrame({"name": ["ada", "bob"], "age": [1, 2]}), type="Person")
    graph.load(pl.DataFrame({"from": ["ada"], "to": ["bob"]}), type="Knows")
    reader = pa.table({"name": ["cy"], "vec": [[1.0, 2.0]]}).to_reader()
    graph.load([reader], type="Person")
    assert graph.read("Person", columns=["id"])["id"].to_pylist() == ["ada", "bob", "cy"]
    assert graph.read("Knows", columns=["src", "dst"]).to_pylist() == [{"src": "ada", "dst": "bob"}]


def test_csv_with_a_header_mapping(graph: Graph, tmp_path: Path) -> None:
    people = tmp_path / "Person.csv"
    people.write_text('who,age,tags,vec\nada,3,"[""x""]","[1,2]"\n"bob\nby",,,\n')
    graph.load(people, columns={"who": "name"})
    assert graph.read("Person", columns=["name", "age", "tags", "vec"]).to_pylist() == [
        {"name": "ada", "age": 3, "tags": ["x"], "vec": [1.0, 2.0]},
        {"name": "bob\nby", "age": None, "tags": None, "vec": None},
    ]
    people.write_text("who,age\ncy,1\ndan,old\n")
    with pytest.raises(ValidationFailed, match=r"Person\.csv:3: Person: 'age'"):
        graph.load(people, columns={"who": "name"})


def test_from_branch_forks_a_missing_branch(graph: Graph, lines: Path) -> None:
    receipt = graph.load(lines, branch="review", from_branch="main")
    assert (receipt.base_branch, receipt.branch_created) == ("main", True)
    assert exported(graph) == ""
    assert exported(graph, branch="review").count("\n") == 6
    with pytest.raises(KeyConflict):
        graph.load(lines, branch="review", from_branch="main")
    with pytest.raises(NotFound):
        graph.load(lines.with_name("none.ndjson"), branch="other", from_branch="main")
    assert [b.name for b in graph.branches.list()] == ["main", "review"]


def test_blobs(graph: Graph, lines: Path, tmp_path: Path) -> None:
    graph.load(lines)
    blob = graph.blob("node", "Person", "ada", "photo")
    assert (blob.size, blob.read(), blob.read(1, 3), blob.read(4, 9), blob.read(9)) == (
        5,
        b"hello",
        b"ell",
        b"o",
        b"",
    )
    with pytest.raises(NotFound):
        graph.blob("node", "Person", "bob", "photo")
    with pytest.raises(InvalidArgument):
        graph.blob("node", "Person", "ada", "name")
    with pytest.raises(InvalidArgument):
        graph.blob("edge", "Person", "ada", "photo")


def test_external_blobs_are_denied_unless_their_base_is_allowed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "photos" / "a.jpg", tmp_path / "secret"
    inside.parent.mkdir()
    inside.write_bytes(b"picture")
    outside.write_bytes(b"secret")
    settings = Settings(load=LoadSettings(blob_bases=(str(inside.parent),)))
    graph = init(tmp_path / "g.omni", SCHEMA, settings=settings)
    lines = tmp_path / "x.ndjson"
    lines.write_text(f'{{"type":"Person","data":{{"name":"a","photo":"file://{inside}"}}}}\n')
    graph.load(lines)
    assert graph.blob("node", "Person", "a", "photo").read() == b"picture"
    for bad in (str(outside), f"{inside.parent}/../secret", "https://x.org/a", "/etc/passwd"):
        lines.write_text(f'{{"type":"Person","data":{{"name":"b","photo":"{bad}"}}}}\n')
        with pytest.raises(ValidationFailed, match=r"x\.ndjson:1: Person: 'photo'"):
            graph.load(lines)
    assert graph.read("Person").num_rows == 1


@pytest.mark.parametrize("base", ["s3://bucket/photos", "https://x.org/photos", "a\0b"])
def test_a_base_that_is_no_local_folder_is_refused_by_name(tmp_path: Path, base: str) -> None:
    settings = Settings(load=LoadSettings(blob_bases=(str(tmp_path), base)))
    graph = init(tmp_path / "g.omni", SCHEMA, settings=settings)
    lines = tmp_path / "x.ndjson"
    lines.write_text('{"type":"Person","data":{"name":"a"}}\n')
    with pytest.raises(InvalidArgument, match="blob_bases") as caught:
        graph.load(lines)
    assert repr(base) in str(caught.value)


def test_progress_is_called(graph: Graph, lines: Path) -> None:
    seen: list[tuple[int, int]] = []
    graph.load(lines, progress=lambda size, rows: seen.append((size, rows)))
    assert seen == [(len(LINES), 6)]

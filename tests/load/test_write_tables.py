"""A merge or overwrite of many rows compares them with the stored ones in one pass."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.graph.open import init
from omnigraph.load import write_tables

SCHEMA = "node T { name: String @key  n: I32?  tags: [String]?  b: Blob? }"


def rows(numbers: list[tuple[int, int]]) -> pa.Table:
    names = [f"t{i}" for i, _ in numbers]
    return pa.table(
        {
            "name": names,
            "n": pa.array([n if n % 3 else None for _, n in numbers], pa.int32()),
            "tags": [
                [name] if n % 2 else None for name, (_, n) in zip(names, numbers, strict=True)
            ],
            "b": [name.encode() for name in names],
        }
    )


@pytest.mark.parametrize("mode", ["merge", "overwrite"])
def test_only_what_differs_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(write_tables, "_LOOKED_UP_ROWS", 0)
    monkeypatch.setattr(write_tables, "_COMPARED_ROWS", 100)
    monkeypatch.setattr(write_tables, "_LARGEST_BATCH", 64)
    monkeypatch.setattr("omnigraph.load.sources._ROWS_PER_BATCH", 30)
    chance = random.Random(mode)
    graph = init(tmp_path / "g.omni", SCHEMA)
    stored = {i: i for i in range(200)}
    graph.load(rows([*stored.items()]), type="T", engine="local")
    given = {i: i if chance.random() < 0.5 else i + 1 for i in range(100, 300)}
    said = [*given.items()]
    chance.shuffle(said)
    if mode == "merge":
        said = [(i, n + 7) for i, n in said[:60]] + said  # earlier rows give way
    receipt = graph.load(rows(said), mode, type="T", engine="local")
    expected = given if mode == "overwrite" else {**stored, **given}
    found = graph.read("T", columns=["id", "n", "tags", "b"]).sort_by("id")
    assert found == graph.read("T").sort_by("id").select(found.column_names)
    wanted = rows([*expected.items()]).rename_columns(["id", "n", "tags", "b"]).sort_by("id")
    assert found.to_pylist() == wanted.to_pylist()
    assert receipt.commit is not None
    (changes,) = receipt.commit.changes
    updated = sum(stored[i] != n for i, n in given.items() if i in stored)
    assert (changes.inserted, changes.updated) == (100, updated)
    assert graph.load(rows([*expected.items()]), mode, type="T", engine="local").commit is None

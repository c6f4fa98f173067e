"""Rows of an export are sorted by id, in memory or on disk."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph import init
from omnigraph.export import sorted_rows


def test_an_export_sorted_on_disk_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = (
        "node T { name: String @key  tags: [String]?  vec: Vector(2)?  at: DateTime?  b: Blob? }"
    )
    graph = init(tmp_path / "g.omni", schema)
    names = [f"n{i * 7919 % 500}" for i in range(500)]
    table = pa.table(
        {
            "name": names,
            "tags": [["x", name] if len(name) > 2 else None for name in names],
            "vec": [[1.0, float(len(name))] if len(name) > 2 else None for name in names],
            "at": pa.array(range(500), pa.timestamp("ms")),
            "b": [name.encode() for name in names],
        }
    )
    graph.load(table, type="T", engine="local")
    in_memory, on_disk = io.BytesIO(), io.BytesIO()
    graph.export(in_memory)
    monkeypatch.setattr(sorted_rows, "_SORTED_IN_MEMORY", 10)
    graph.export(on_disk)
    assert on_disk.getvalue() == in_memory.getvalue()
    exported = [json.loads(line)["data"]["name"] for line in in_memory.getvalue().splitlines()]
    assert exported == sorted(names)

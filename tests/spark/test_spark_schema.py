"""Spark workers write the new columns of a schema change."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph import init

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("spark"),
    pytest.mark.timeout(900),
]

SCHEMA = "node Item { name: String @key  size: I32? }"
WIDER = "node Item { name: String @key  size: I64?  label: String @unique }"


def test_workers_write_the_same_columns_as_this_process(tmp_path: Path) -> None:
    found = {}
    for engine in ("local", "spark"):
        graph = init(tmp_path / engine, SCHEMA)
        for start in (0, 100, 200):
            rows = {"name": [f"i{n}" for n in range(start, start + 100)]}
            sizes = pa.array([None if n % 7 == 0 else n for n in range(100)], pa.int32())
            graph.load(pa.table(rows | {"size": sizes}), type="Item", engine="local")
        graph.mutate('delete Item where name = "i5"')
        done = graph.schema.apply(
            WIDER, backfill={"Item.label": 'name + "!"'}, engine=engine, message=engine
        )
        assert done.commit is not None
        assert done.commit.message == engine
        assert graph.verify().findings == ()
        found[engine] = graph.read("Item").sort_by("id").to_pylist()
    assert found["spark"] == found["local"]
    assert found["spark"][0] == {"id": "i0", "name": "i0", "size": None, "label": "i0!"}

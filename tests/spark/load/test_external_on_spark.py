"""External blobs in loads by workers: judged by the same rule, and the default denies them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from omnigraph import init
from omnigraph.errors import ValidationFailed
from omnigraph.values.external_blobs import external_cell
from omnigraph_testing.graph_helpers import exported
from omnigraph_testing.load_engines import SMALL_PIECES

pytestmark = [pytest.mark.xdist_group("spark")]

SCHEMA = "node Person { name: String @key  photo: Blob? }"
BASE = "s3://pictures/people"


def test_workers_judge_external_blobs(tmp_path: Path, spark: Any) -> None:
    line = {"type": "Person", "data": {"name": "ada", "photo": f"{BASE}/ada.jpg"}}
    (tmp_path / "people.ndjson").write_text(json.dumps(line))
    rows = [("bob", bytearray(external_cell(f"{BASE}/bob.jpg"))), ("cy", bytearray(b"cy"))]
    frame = spark.createDataFrame(rows, "name string, photo binary")
    graph = init(tmp_path / "g.omni", SCHEMA, settings=SMALL_PIECES.allowing([BASE]))
    graph.load(tmp_path / "people.ndjson", engine="spark")
    graph.load(frame, type="Person", engine="spark")
    found = {name: graph.blob("node", "Person", name, "photo").uri for name in ("ada", "bob", "cy")}
    assert found == {"ada": f"{BASE}/ada.jpg", "bob": f"{BASE}/bob.jpg", "cy": None}
    assert f"{BASE}/bob.jpg" in exported(graph)
    strict = init(tmp_path / "strict.omni", SCHEMA, settings=SMALL_PIECES)
    for data, options in ((tmp_path / "people.ndjson", {}), (frame, {"type": "Person"})):
        with pytest.raises(ValidationFailed, match="does not allow"):
            strict.load(data, engine="spark", **options)
    assert strict.read("Person").num_rows == 0

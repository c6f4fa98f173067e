"""`@unique` finds stored values of every type, with and without an index."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import ValidationFailed

VALUES = {
    "String": ["", "O'Brien", 'a"b\\c', "%_", "é\n"],
    "Bool": [True, False],
    "I32": [-(2**31), 0],
    "I64": [-(2**63), 2**63 - 1],
    "U32": [2**32 - 1],
    "U64": [0, 2**63, 2**64 - 1],
    "F32": [0.1, -0.0],
    "F64": [0.1, 1e300],
    "Date": [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31)],
    "DateTime": [dt.datetime(1969, 1, 1, 0, 0, 0, 1000), dt.datetime(2020, 1, 1)],
    "enum(a, b)": ["a"],
    "[String]": [["x", "y"], []],
}


@pytest.mark.parametrize("indexed", [False, True])
def test_a_taken_value_is_found(tmp_path: Path, indexed: bool) -> None:
    fields = [f"p{n}: {kind}? @unique" for n, kind in enumerate(VALUES)]
    graph = omnigraph.init(tmp_path / "g.omni", "node N {\n" + "\n".join(fields) + "\n}")
    places = [(f"p{n}", value) for n, values in enumerate(VALUES.values()) for value in values]
    rows = [{"id": f"{name}-{value}", name: value} for name, value in places]
    graph.apply({"N": {"insert": rows}})
    if indexed:
        graph.ensure_indices()
    graph.apply({"N": {"insert": [{"id": "null"}]}})
    taken = [{"id": f"new-{name}-{value}", name: value} for name, value in places]
    for row in taken:
        with pytest.raises(ValidationFailed) as caught:
            graph.apply({"N": {"insert": [row]}})
        assert caught.value.counts == {"unique": 1}, row
    with pytest.raises(ValidationFailed) as caught:
        graph.apply({"N": {"insert": taken}})
    assert caught.value.counts == {"unique": len(taken)}

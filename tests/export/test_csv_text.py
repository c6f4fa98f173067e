"""What CSV export writes, the CSV reader reads back: every value of every type."""

from __future__ import annotations

import datetime as dt
import io
import math
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph import init
from omnigraph.errors import InvalidArgument
from omnigraph.export.csv_text import csv_chunks
from omnigraph.load.csv_files import csv_blocks
from omnigraph.load.input_files import TextForm
from omnigraph.load.parsed_rows import BlobBases, raw_schema
from omnigraph.schema.build import catalog_from_text
from omnigraph.values.coercion import round_to_f32

CATALOG = catalog_from_text(
    """
node T {
  s: String?  b: Bool?  i: I32? @default(7)  w: U64?  f: F32?  d: F64?  day: Date?  at: DateTime?
  e: enum(x, y)?  v: Vector(2)?  ls: [String]?  lf: [F64]?  ld: [Date]?  blob: Blob?
}
edge E: T -> T { note: String? }
"""
)
TEXTS = st.text(
    st.one_of(st.sampled_from(list("\",;\n\r\t' \\a\u2028\0")), st.characters(codec="utf-8")),
    max_size=8,
)
F32 = st.floats(width=32, allow_nan=False, allow_infinity=False).map(round_to_f32)
F64 = st.floats(allow_nan=False, allow_infinity=False)
MOMENTS = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)).map(
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
)
VALUES: dict[str, st.SearchStrategy[object]] = {
    "s": TEXTS,
    "b": st.booleans(),
    "i": st.integers(-(2**31), 2**31 - 1),
    "w": st.integers(0, 2**64 - 1),
    "f": F32,
    "d": F64,
    "day": st.dates(),
    "at": MOMENTS,
    "e": st.sampled_from(["x", "y"]),
    "v": st.lists(F32, min_size=2, max_size=2),
    "ls": st.lists(TEXTS, max_size=3),
    "lf": st.lists(F64, max_size=3),
    "ld": st.lists(st.dates(), max_size=2),
    "blob": st.binary(max_size=9),
}
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()}),
    max_size=6,
)


@given(ROWS)
def test_every_value_comes_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]]
) -> None:
    entity = CATALOG.resolve("T")
    placed = [{"id": f"n{n}", **row} for n, row in enumerate(rows)]
    table = pa.Table.from_pylist(placed, schema=raw_schema(entity))
    path = tmp_path_factory.getbasetemp() / "T.csv"
    path.write_bytes(b"".join(csv_chunks(entity, iter([table]))))
    blocks = list(csv_blocks(path, entity, None, BlobBases(), TextForm()))
    assert [problem for block in blocks for problem in block.problems] == []
    found = {row["id"]: row for b in blocks for part in b.rows for row in part.table.to_pylist()}
    assert [repr(_without_sign(found[row["id"]])) for row in table.to_pylist()] == [
        repr(_without_sign(row)) for row in table.to_pylist()
    ]


def _without_sign(row: dict[str, object]) -> dict[str, object]:
    """-0.0 as 0.0: the two are equal, and the reader may give either."""
    return {
        name: [_plain(item) for item in value] if isinstance(value, list) else _plain(value)
        for name, value in row.items()
    }


def _plain(value: object) -> object:
    return math.fabs(value) if isinstance(value, float) and value == 0.0 else value


def test_a_stream_gets_one_type(tmp_path: Path) -> None:
    graph = init(
        tmp_path / "g.omni", "node A { name: String @key }\nedge E: A -> A { note: String? }"
    )
    graph.apply({"A": {"insert": [{"name": "a,b"}]}})
    graph.apply({"E": {"insert": [{"id": "e", "from": "a,b", "to": "a,b", "note": ""}]}})
    texts = []
    for name in ("A", "E"):
        sink = io.BytesIO()
        graph.export(sink, types=[name], format="csv")
        texts.append(sink.getvalue().decode())
    assert texts == ['name\r\n"a,b"\r\n', 'id,from,to,note\r\ne,"a,b","a,b",""\r\n']
    with pytest.raises(InvalidArgument, match="one file per type"):
        graph.export(io.BytesIO(), format="csv")
    with pytest.raises(InvalidArgument, match="a directory for parquet"):
        graph.export(io.BytesIO(), format="parquet")

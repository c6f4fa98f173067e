"""Frames of pandas: what a graph gives goes back in unchanged, and integers may come as floats."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from omnigraph.errors import ValidationFailed
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init

SCHEMA = """
node T {
  name: String @key
  b: Bool?  i: I32?  l: I64?  u: U32?  w: U64?  f: F32?  d: F64?
  day: Date?  at: DateTime?  e: enum(x, y)?  v: Vector(2)?
  ls: [String]?  li: [I64]?  lf: [F64]?  lb: [Bool]?  ld: [Date]?  lt: [DateTime]?
  blob: Blob?
}
edge E: T -> T { n: I64?  day: Date? }
"""
LINES = """
{"type":"T","data":{"name":"a","b":true,"i":1,"l":5,"u":1,"w":18446744073709551615,"f":1.5,"d":0.1}}
{"type":"T","data":{"name":"b","day":"2020-01-01","at":"2020-01-01T10:00:00.123+02:00","e":"x"}}
{"type":"T","data":{"name":"c","v":[1,2.5],"ls":["a",""],"li":[1,2],"lf":[0.1],"lb":[true,false]}}
{"type":"T","data":{"name":"d","ld":["2020-01-01"],"lt":["2020-01-01T10:00:00Z"]}}
{"type":"T","data":{"name":"e","ls":[],"li":[],"ld":[],"l":9007199254740993,"blob":"base64:AAE="}}
{"type":"T","data":{"name":"f"}}
{"edge":"E","from":"a","to":"b","data":{"n":9007199254740993}}
{"edge":"E","from":"a","to":"c","data":{"day":"2020-01-05"}}
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = init(tmp_path / "g.omni", SCHEMA)
    path = tmp_path / "in.ndjson"
    path.write_text(LINES)
    made.load(path)
    return made


@pytest.mark.parametrize("name", ["T", "E"])
def test_what_was_read_goes_back_unchanged(graph: Graph, name: str) -> None:
    table = graph.read(name)
    for data in (table, table.to_pandas(), table.to_pandas().sample(frac=1, random_state=1)):
        assert graph.load(data, "merge", type=name).commit is None


def test_integers_with_nulls_stay_integers(graph: Graph) -> None:
    frame = graph.read("T").to_pandas().set_index("name")
    assert frame.l.dtype == "Int64"
    assert frame.l["e"] == 9007199254740993
    assert graph.read("T", ids=["a", "b"]).to_pandas().w.max() == 2**64 - 1


def test_whole_floats_are_integers(graph: Graph) -> None:
    graph.load(pd.DataFrame({"name": ["x", "y"], "i": [7.0, None]}), type="T")
    assert graph.read("T", ids=["x", "y"]).column("i").to_pylist() == [7, None]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, 1.5], "<table>:2: T: 'i': 1.5 is not an I32"),
        ([1.0, 3e9], "<table>:2: T: 'i': 3000000000 is not an I32"),
        ([1.0, 2.0**60], "<table>:2: T: 'i': .* floats beyond 2\\^53"),
        ([1.0, float("inf")], "<table>:2: T: 'i': inf is not an I32"),
    ],
)
def test_other_floats_are_refused(graph: Graph, values: list[float], message: str) -> None:
    with pytest.raises(ValidationFailed, match=message):
        graph.load(pd.DataFrame({"name": ["x", "y"], "i": values}), type="T")


def test_dates_of_pandas_are_moments_at_midnight(graph: Graph) -> None:
    days = pd.to_datetime(["2020-02-29", None])
    graph.load(pd.DataFrame({"name": ["x", "y"], "day": days}), type="T")
    assert graph.read("T", ids=["x", "y"]).column("day").to_pylist() == [dt.date(2020, 2, 29), None]
    times = pd.to_datetime(["2020-02-29 00:00", "2020-02-29 01:00"])
    with pytest.raises(ValidationFailed, match="<table>:2: T: 'day'"):
        graph.load(pd.DataFrame({"name": ["p", "q"], "day": times}), type="T")
    zoned = pa.array([dt.datetime(2020, 1, 1, tzinfo=dt.UTC)], pa.timestamp("us", "UTC"))
    with pytest.raises(ValidationFailed, match="<table>:1: T: 'day'"):
        graph.load(pa.table({"name": ["p"], "day": zoned}), type="T")

"""The answer of a query in every format, made in one batch and in several."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.execute import answer_formats
from omnigraph.execute.answer_formats import (
    arrow_chunks,
    csv_chunks,
    json_chunks,
    ndjson_chunks,
)
from omnigraph.execute.query_types import QueryResult

ROWS = [
    {"name": "Ada", "at": dt.datetime(2026, 4, 14, 10, 0, 0, 500_000), "n": 2**63 - 1},
    {"name": 'a "quoted", text', "at": None, "n": None},
    {"name": "", "at": dt.datetime(2026, 1, 1), "n": 0},
    {"name": None, "at": None, "n": -1},
    {"name": " x ", "at": None, "n": 1},
]
EXTRA = {
    "day": pa.array([dt.date(2026, 1, 2), None, None, None, None], pa.date32()),
    "vector": pa.array([[0.5, 1.0]] + [None] * 4, pa.list_(pa.float32(), 2)),
    "blob": pa.array([b"\x00\xff", None, b"", None, None], pa.large_binary()),
    "yes": pa.array([True, False, None, None, None]),
    "number": pa.array([1.0, float("nan"), 1e300, None, -0.25]),
}


def answer(rows: list[dict[str, Any]] = ROWS) -> QueryResult:
    names = ("name", "at", "n")
    kinds = (pa.string(), pa.timestamp("ms"), pa.int64())
    columns = {
        name: pa.array([row[name] for row in rows], kind)
        for name, kind in zip(names, kinds, strict=True)
    }
    extra = {name: column.slice(0, len(rows)) for name, column in EXTRA.items()}
    return QueryResult("people", "main", "01J", pa.record_batch({**columns, **extra}))


@pytest.fixture(params=[8192, 2], ids=["one batch", "several"], autouse=True)
def rows_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_formats, "ROWS_AT_ONCE", request.param)


@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], []], ids=["five", "one", "none"])
def test_every_format_has_all_rows(rows: list[dict[str, Any]]) -> None:
    result = answer(rows)
    expected = result.to_dict()
    assert json.loads(b"".join(json_chunks(result))) == expected
    first, *lines = b"".join(ndjson_chunks(result)).decode().splitlines()
    told = {name: value for name, value in expected.items() if name != "rows"}
    assert json.loads(first) == {"kind": "metadata", **told}
    assert [json.loads(line) for line in lines] == expected["rows"]
    data = b"".join(arrow_chunks(result, {"graph_commit_id": "01J"}))
    with pa.ipc.open_stream(data) as reader:
        assert reader.schema.metadata[b"graph_commit_id"] == b"01J"
        assert str(reader.read_all().to_pylist()) == str(result.to_pylist())  # NaN is not NaN


def test_csv_tells_null_from_the_empty_text() -> None:
    text = b"".join(csv_chunks(answer(), "\n")).decode()
    assert text.splitlines() == [
        "name,at,n,day,vector,blob,yes,number",
        'Ada,2026-04-14T10:00:00.500Z,9223372036854775807,2026-01-02,"[0.5,1.0]",base64:AP8=,true,1.0',
        '"a ""quoted"", text",,,,,,false,',
        '"",2026-01-01T00:00:00Z,0,,,base64:,,1e+300',
        ",,-1,,,,,",
        '" x ",,1,,,,,-0.25',
    ]
    assert len(list(csv.reader(io.StringIO(text)))) == 6
    assert b"".join(csv_chunks(answer([]))) == b"name,at,n,day,vector,blob,yes,number\r\n"


def test_an_answer_without_columns_names_none() -> None:
    result = QueryResult("nothing", "main", "01J", pa.record_batch({}))
    assert json.loads(b"".join(json_chunks(result))) == {
        "query_name": "nothing",
        "target": {"branch": "main"},
        "graph_commit_id": "01J",
        "row_count": 0,
        "rows": [],
    }

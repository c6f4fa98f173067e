"""`QueryResult` as a sequence of rows, as text and as HTML."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph
from omnigraph import Edit, Graph, QueryResult
from omnigraph.execute import query_runner
from omnigraph.execute.query_types import LateRows

SCHEMA = "node P { name: String @key  n: I32?  at: DateTime?  ats: [DateTime]? }"
NUMBERS = "query numbers() { match { $p: P } return { $p.n as n, $p.name as name } order { $p.n } }"
MOMENT = dt.datetime(2026, 4, 14, 10, 0, 0, 500_000, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    graph = omnigraph.init(tmp_path_factory.mktemp("rows") / "g", SCHEMA)
    rows = [{"name": f"p{n:02}", "n": n} for n in range(25)]
    rows[0] |= {"at": MOMENT, "ats": [MOMENT, MOMENT.replace(tzinfo=None)]}
    graph.apply({"P": Edit(insert=rows)})
    return graph


@pytest.fixture(params=["plain", "at once", "in parts"])
def ask(
    graph: Graph, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], QueryResult]:
    """A few rows are plain values, more are one batch; of many, some rows are made at a time."""
    if request.param != "plain":
        monkeypatch.setattr(query_runner, "_FEW", -1)
    if request.param == "in parts":
        monkeypatch.setattr(query_runner, "_LARGE", 0)

    def ask(text: str) -> QueryResult:
        result = graph.query(text)
        if request.param != "plain":  # moments and lists are never plain
            assert isinstance(result.rows, pa.RecordBatch) == (request.param == "at once")
        return result

    return ask


def test_a_result_is_a_sequence_of_dicts(ask: Callable[[str], QueryResult]) -> None:
    result = ask(NUMBERS)
    every = result.to_pylist()
    assert len(result) == result.row_count == 25
    assert list(result) == list(result) == every
    assert (result[0], result[-1], result[24]) == (every[0], every[-1], every[24])
    for part in (slice(2, 5), slice(None), slice(-3, None), slice(20, 2), slice(None, None, -7)):
        assert result[part] == every[part]
    assert {"n": 3, "name": "p03"} in result
    for wrong in (25, -26):
        with pytest.raises(IndexError, match=f"row {wrong} of a result with 25 rows"):
            result[wrong]
    with pytest.raises(TypeError):
        result["n"]  # type: ignore[call-overload]


def test_iteration_makes_few_rows_at_a_time() -> None:
    made: list[tuple[int, int]] = []

    class Rows(LateRows):
        names = ("n",)
        length = 10_000
        is_ready = True

        def values(self, start: int, end: int) -> pa.RecordBatch:
            made.append((start, end))
            return pa.record_batch({"n": list(range(start, end))})

    result = QueryResult("q", "main", "01", Rows())
    assert next(iter(result)) == {"n": 0}
    assert result[9_999] == {"n": 9_999}
    assert "10,000 rows" in repr(result)
    assert sum(end - start for start, end in made) < 5_000


def test_the_text_is_a_small_table(
    graph: Graph, ask: Callable[[str], QueryResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    head = graph.snapshot().graph_commit_id
    lines = repr(ask(NUMBERS)).splitlines()
    assert lines[:4] == [
        f"numbers at {head}: 25 rows, the first 10:",
        "n  name",
        "-  ----",
        "0  p00",
    ]
    assert (len(lines), lines[-2:]) == (14, ["9  p09", "…"])
    one = "query q() { match { $p: P { n: 1 } } return { $p.name } }"
    assert repr(ask(one)).splitlines() == [f"q at {head}: 1 row", "p.name", "------", "p01"]


def test_wide_tables_fit_the_terminal(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    columns = ", ".join(f'"{"x" * 30}" as c{n}' for n in range(6))
    text = repr(graph.query(f"query q() {{ match {{ $p: P }} return {{ {columns} }} limit 3 }}"))
    table = text.splitlines()[1:]
    assert all(len(line) <= 50 for line in table)
    assert table[0].endswith("…")
    assert "c1" in table[0]


def test_text_and_html_do_not_let_data_through(graph: Graph) -> None:
    name = '<b onload="x">&\x1b[31m\n'
    graph.branches.create("odd")
    graph.apply({"P": Edit(insert=[{"name": name}])}, "odd")
    text = "query q($name: String) { match { $p: P { name: $name } } return { $p.name, $p.n } }"
    result = graph.query(text, params={"name": name}, branch="odd")
    assert "\x1b" not in repr(result)
    shown = result._repr_html_()
    assert "&lt;b onload=&quot;x&quot;&gt;&amp;\\x1b[31m\\n" in shown
    assert "<th>p.name</th>" in shown
    assert "<td>NULL</td>" in shown


def test_moments_come_back_in_utc(ask: Callable[[str], QueryResult], graph: Graph) -> None:
    result = ask("query q() { match { $p: P { n: 0 } } return { $p.at as at, $p.ats as ats, $p } }")
    (row,) = result.to_pylist()
    whole = {"id": "p00", "name": "p00", "n": 0, "at": MOMENT, "ats": [MOMENT, MOMENT]}
    assert row == {"at": MOMENT, "ats": [MOMENT, MOMENT], "p": whole}
    assert result[0] == row
    assert row["at"].utcoffset() == row["p"]["ats"][1].utcoffset() == dt.timedelta(0)
    assert result.to_arrow().schema.field("at").type == pa.timestamp("ms", "UTC")
    assert str(result.to_pandas()["at"].dtype) == "datetime64[ms, UTC]"
    assert result.to_polars()["at"].dtype.time_zone == "UTC"
    assert result.to_dict()["rows"][0]["at"] == "2026-04-14T10:00:00.500Z"
    assert graph.read("P", ids=["p00"]).to_pylist()[0]["at"] == MOMENT
    (change,) = [c for c in graph.diff("HEAD~1", "main") if c.id == "p00"]
    assert change.after is not None
    assert change.after["ats"] == [MOMENT, MOMENT]


def test_what_was_read_can_be_loaded_again(graph: Graph, tmp_path: Path) -> None:
    copy = omnigraph.init(tmp_path / "copy", SCHEMA)
    result = graph.query(
        "query q() { match { $p: P } return { $p.name as name, $p.at as at, $p.ats as ats } }"
    )
    copy.load(result.to_arrow(), type="P")
    rows: list[dict[str, Any]] = copy.read("P", columns=["name", "at", "ats"]).to_pylist()
    assert rows == result.to_pylist()

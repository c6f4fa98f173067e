"""Aggregates of all nodes of a type: workers group what they read, Spark combines the groups."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from omnigraph import Edit, init
from omnigraph.graph.handle import Graph
from omnigraph.spark.query.graph_tables import GraphTables
from omnigraph.spark.query.scan_groups import GroupValue, ScanGroups

SCHEMA = """
node Item {
  name: String @key  count_all: I32?  small: I32?  large: I64?  plain: U32?  wide: U64?
  share: F64?  day: Date?  at: DateTime?  is_new: Bool?  kind: enum(a, b)?
}
node Nothing { name: String @key  size: I32? }
"""
_LARGE = 2**31 - 1
# Whether the tasks group, and what the query returns.
RETURNS = [
    (True, "$p.count_all, count($p) as n"),
    (True, "$p.count_all, count(*) as n, avg($p.small) as a, sum($p.small) as s"),
    (True, "$p.count_all, $p.is_new, min($p.large) as a, max($p.wide) as b"),
    (True, "$p.small, sum($p.small) as s, avg($p.small) as a, count($p.small) as n"),
    (True, "$p.wide, $p.day, count($p.plain) as n, sum($p.plain) as s"),
    (True, "sum($p.plain) as s, avg($p.plain) as a, min($p.small) as b, max($p.small) as c"),
    (True, "count($p.name) as n, count($p) as m"),
    (False, "$p.share, count($p) as n"),
    (False, "$p.at, count($p) as n"),
    (False, "$p.count_all, sum($p.large) as s"),
    (False, "$p.count_all, avg($p.share) as s"),
    (False, "$p.count_all, count(distinct $p.small) as s"),
    (False, "$p.count_all, collect($p.small) as s"),
    (False, "$p.name, $p.id, count($p) as n"),
    (False, "$p.count_all, sum($p.small + 1) as s"),
]

on_spark = [
    pytest.mark.xdist_group("spark_reads"),
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("many_tasks"),
]


def item(number: int) -> dict[str, Any]:
    given = {
        "count_all": number % 3,
        "small": _LARGE - number % 2 if number < 20 else -number,
        "large": 2**58 + number,
        "plain": 2**32 - 1 - number,
        "wide": 2**64 - 1 - number % 4,
        "share": number / 8,
        "day": f"2024-01-{1 + number % 5:02}",
        "at": f"2024-01-{1 + number % 5:02}T00:00:00Z",
        "is_new": number % 4 < 2,
    }
    # Some rows lack some values, and one row lacks all of them.
    lacks = [name for n, name in enumerate(given) if number % 11 == n] if number else list(given)
    return {"name": f"item {number}", **{n: v for n, v in given.items() if n not in lacks}}


@pytest.fixture(scope="module")
def graph(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Several fragments, some rows of which are deleted."""
    graph = init(tmp_path_factory.mktemp("groups") / "g", SCHEMA)
    for start in range(0, 60, 20):
        graph.apply({"Item": Edit(insert=[item(n) for n in range(start, start + 20)])})
    graph.mutate('query q() { delete Item where name in ["item 7", "item 25", "item 59"] }')
    return graph


def answers(graph: Graph, what: str, kind: str = "Item") -> list[list[dict[str, Any]]]:
    text = f"query q() {{ match {{ $p: {kind} }} return {{ {what} }} }}"
    return [graph.query(text, engine=engine).to_pylist() for engine in ("spark", "local")]


@pytest.mark.parametrize("rows_per_task", [1, 1_000_000])
@pytest.mark.parametrize(("in_tasks", "what"), RETURNS)
class TestOnSpark:
    pytestmark = on_spark

    def test_it_finds_what_the_local_engine_finds(
        self,
        graph: Graph,
        what: str,
        in_tasks: bool,
        rows_per_task: int,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        called = []
        made = GraphTables.grouped
        monkeypatch.setattr(GraphTables, "grouped", lambda *args: called.append(1) or made(*args))
        monkeypatch.setattr("omnigraph.spark.query.graph_tables._ROWS_PER_TASK", rows_per_task)
        found, expected = answers(graph, what)
        assert found == expected
        assert bool(called) == in_tasks


class TestNoRows:
    pytestmark = on_spark

    @pytest.mark.parametrize(
        "what", ["$p.size, count($p) as n", "count($p.size) as n, sum($p.size) as s"]
    )
    def test_a_type_without_rows(self, graph: Graph, what: str) -> None:
        found, expected = answers(graph, what, "Nothing")
        assert found == expected


def test_rows_are_grouped_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.spark.query.scan_groups._ROWS_AT_ONCE", 3)
    rows = [pa.table({"k": [1, None], "v": pa.array([n, None], pa.int32())}) for n in range(5)]
    values = (GroupValue("count_all", None), GroupValue("sum", "v"), GroupValue("count", "v"))
    groups = ScanGroups(("k",), values)
    found = [table.to_pylist() for table in groups.of(rows)]
    assert groups.columns == ["k", "v"]
    assert found == [
        [{"g0": 1, "p0": 2, "p1": 1, "p2": 2}, {"g0": None, "p0": 2, "p1": None, "p2": 0}],
        [{"g0": 1, "p0": 2, "p1": 5, "p2": 2}, {"g0": None, "p0": 2, "p1": None, "p2": 0}],
        [{"g0": 1, "p0": 1, "p1": 4, "p2": 1}, {"g0": None, "p0": 1, "p1": None, "p2": 0}],
    ]
    assert list(groups.of([])) == []

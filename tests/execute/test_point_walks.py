"""A walk from one named entity answers as its steps do one by one, and obeys the same limits."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph
from omnigraph import Edit, Graph
from omnigraph.errors import ResourceLimit
from omnigraph.execute import query_runner
from omnigraph.execute.evaluation.arrow_functions import truths
from omnigraph.execute.operators import point_operators
from omnigraph.execute.query_types import PlainRows
from omnigraph.execute.topology.plain_values import plain_column

SCHEMA = """
node Person { name: String @key  age: I32?  nick: String?  big: U64?  rate: F32?  ok: Bool?
  at: DateTime? }
node Town { name: String @key }
edge Knows: Person -> Person { since: I32 }
edge LivesIn: Person -> Town
"""
PEOPLE = [
    {"name": "Ada", "age": 36, "nick": "a\u00e9\U0001f642", "big": 2**64 - 1, "rate": 0.1},
    {"name": "Bob", "ok": True, "rate": -2.5},
    {"name": "Cy", "age": -1, "nick": "", "ok": False, "at": "2026-01-01T00:00:00Z"},
    {"name": "Di"},
]
KNOWS = [("Ada", "Bob", 1), ("Ada", "Bob", 2), ("Ada", "Cy", 3), ("Bob", "Cy", 4), ("Cy", "Ada", 5)]

WALKS = [
    "$p: Person { name: $who } } return { $p.name, $p.age, $p.nick, $p.big, $p.rate }",
    "$p: Person { name: $who } } return { $p.name, $p.ok, $p.at }",
    "$p: Person { name: $who } $p knows $f } return { $f.name, $f.nick, $p.age }",
    "$p: Person { name: $who } $p $k:knows $f } return { $k.since, $f.ok }",
    "$p: Person { name: $who } $f knows $p } return { $f.name }",
    "$p: Person { name: $who } $p knows $m $m knows $f } return { $m.name, $f.name }",
    "$p: Person { name: $who } $p knows $m $m knows $f } return { count(distinct $f) as n }",
    "$p: Person { name: $who } $p knows $m $m knows $f } return { count($f) as n }",
    "$p: Person { name: $who } $p $k:knows $f $k.since > 1 $f.age != 7 } return { $f.name }",
    "$p: Person { name: $who } $p knows $f $f livesIn $t } return { $t.name, $f.name }",
    "$p: Person { name: $who } $p knows $f } return { $f.name } order { $f.age desc } limit 1",
    "$p: Person { name: $who } $t: Town } return { $p.name, $t.name }",
]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    graph = omnigraph.init(tmp_path_factory.mktemp("walks") / "g", SCHEMA)
    towns = [{"name": "Ulm"}, {"name": "Rom"}]
    graph.apply({"Person": Edit(insert=PEOPLE), "Town": Edit(insert=towns)})
    knows = [{"from": a, "to": b, "since": n} for a, b, n in KNOWS]
    lives = [{"from": "Bob", "to": "Ulm"}, {"from": "Cy", "to": "Rom"}, {"from": "Cy", "to": "Ulm"}]
    graph.apply({"Knows": Edit(insert=knows), "LivesIn": Edit(insert=lives)})
    return graph


def asked(graph: Graph, body: str, who: str, **bounds: Any) -> omnigraph.QueryResult:
    return graph.query(
        f"query q($who: String) {{ match {{ {body} }}", params={"who": who}, **bounds
    )


@pytest.mark.parametrize("walk", WALKS)
def test_one_function_answers_as_the_operators_do(
    graph: Graph, walk: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also: the few rows that are made as Python values are those that Arrow makes."""
    people = [*(person["name"] for person in PEOPLE), "nobody"]
    for who in people:
        asked(graph, walk, who)  # now all that it reads is in memory
    as_one = [asked(graph, walk, who) for who in people]
    monkeypatch.setattr(point_operators, "_walk", lambda binder, op: None)
    monkeypatch.setattr(query_runner, "_FEW", -1)
    graph.engine.queries._heads.clear()
    for who, found in zip(people, as_one, strict=True):
        expected = asked(graph, walk, who)
        assert isinstance(expected.rows, pa.RecordBatch)
        assert found.to_arrow().equals(expected.to_arrow())
        assert found.to_pylist() == expected.to_pylist()
        assert [list(map(type, row.values())) for row in found] == [
            list(map(type, row.values())) for row in expected
        ]


def test_a_walk_is_one_function_when_it_is_in_memory(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = WALKS[2]
    asked(graph, walk, "Ada")
    taken: list[int] = []
    run: Callable[..., Any] = point_operators._Walk.run
    monkeypatch.setattr(
        point_operators._Walk,
        "run",
        lambda self, query: taken.append(1) or run(self, query),
    )
    found = asked(graph, walk, "Ada")
    assert taken
    assert isinstance(found.rows, PlainRows)
    assert [row["f.name"] for row in found] == ["Bob", "Cy"]


def test_a_walk_can_be_cancelled_and_runs_out_of_time(graph: Graph) -> None:
    cancelled = threading.Event()
    cancelled.set()
    asked(graph, WALKS[2], "Ada")
    with pytest.raises(ResourceLimit, match="cancelled"):
        asked(graph, WALKS[2], "Ada", cancel=cancelled)
    with pytest.raises(ResourceLimit, match="time"):
        asked(graph, WALKS[2], "Ada", timeout=-1.0)


def test_a_profile_shows_each_step(graph: Graph) -> None:
    text = "match { $p: Person { name: 'Ada' } $p knows $f } return { $f.name }".replace("'", '"')
    names = [op.name for op in graph.profile(text).operators]
    assert names == ["LookUp", "Expand", "Keep", "OrderBy", "Project"]
    assert [op.actual_rows for op in graph.profile(text).operators][:2] == [1, 2]


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", None, "\u00e9\U0001f642", ""]),
        pa.array(["a", None, "b"], pa.large_string()),
        pa.array([1, None, -(2**31)], pa.int32()),
        pa.array([2**63, None, 0], pa.uint64()),
        pa.array([0.1, None, math.inf], pa.float32()),
        pa.array([True, None, False, True] * 5),
    ],
)
@pytest.mark.parametrize("start", [0, 1])
def test_plain_values_are_those_of_arrow(values: pa.Array, start: int) -> None:
    part = values.slice(start)
    column = plain_column(part)
    assert column is not None
    assert column.kind == values.type
    order = list(range(len(part)))[::-1]
    assert column.read(order) == part.to_pylist()[::-1]
    if pa.types.is_boolean(values.type):
        expected = np.array([value is True for value in part.to_pylist()])
        assert np.array_equal(truths(part), expected)


def test_a_moment_has_no_plain_value() -> None:
    assert plain_column(pa.array([0], pa.timestamp("ms"))) is None
    assert plain_column(pa.array([[1]])) is None
    assert plain_column(pa.array([], pa.string())) is None

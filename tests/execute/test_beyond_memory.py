"""Random queries with memory for a few rows: the answers of the reference, or a clear refusal."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, reject, settings

from omnigraph.errors import InvalidArgument, ResourceLimit
from omnigraph_testing.executor_suite import plain, run_reference, same_value
from omnigraph_testing.graph_data import GraphData, data_lines
from omnigraph_testing.random_queries import RandomQuery, random_queries
from omnigraph_testing.suite_executors import TightGraphs


def check_tight(query: RandomQuery, tight: TightGraphs) -> None:
    try:
        columns, rows = run_reference(query.graph, query.source, query.parameters)
        names, answer = tight.run(query.graph, query.source, query.parameters)
    except InvalidArgument:
        reject()
    except ResourceLimit as refused:
        if refused.limit != "memory":
            raise
        reject()
    expected = [[plain(row[name]) for name in columns] for row in rows]
    actual = [[plain(row[name]) for name in columns] for row in answer]
    assert list(names) == list(columns)
    assert same_value(expected, actual), f"{query.source}\n{expected}\n{actual}"


@given(query=random_queries())
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
)
def test_little_memory_answers_like_the_reference(query: RandomQuery, tight: TightGraphs) -> None:
    check_tight(query, tight)


NUMBERS = GraphData(
    "node N { n: I32 @key }",
    data_lines([f'{{"type": "N", "data": {{"n": {n}}}}}' for n in range(12)]),
)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("exists { $a: N $b: N $c: N $a.n + $b.n > 21 }", list(range(12))),
        ("exists { $a: N $b: N $c: N $a.n + $b.n > 22 }", []),
        ("exists { $a: N $b: N $a.n + $b.n = $x.n + 15 }", list(range(8))),
        ("not exists { $a: N $b: N $a.n + $b.n = $x.n + 15 }", [8, 9, 10, 11]),
        ("not { $a: N $b: N $a.n + $b.n = $x.n + 15 }", [8, 9, 10, 11]),
        ("$x.n = 9 or exists { $a: N $b: N $a.n + $b.n = $x.n + 20 }", [0, 1, 2, 9]),
    ],
)
def test_a_block_with_more_matches_than_memory(
    condition: str, expected: list[int], tight: TightGraphs
) -> None:
    """Whether a block matches needs only some of its rows at a time."""
    text = f"match {{ $x: N  {condition} }} return {{ $x.n as n }} limit 20"
    _, rows = tight.run(NUMBERS, text, {})
    assert sorted(row["n"] for row in rows) == expected

"""Queries in a scope answer like queries on a graph without what is out of scope."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.errors import OmnigraphError, TypeCheckError
from omnigraph_testing.executor_suite import plain, read_suite, same_value
from omnigraph_testing.graph_data import GraphData
from omnigraph_testing.random_queries import RandomQuery, random_queries
from omnigraph_testing.scoped_gate import Rules, ScopedGate
from omnigraph_testing.scoped_graphs import filtered_graph, random_rules
from omnigraph_testing.suite_executors import LocalGraphs

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
CASES = read_suite(Path(__file__).parent.parent / "fixtures" / "conformance")
FILES = sorted({case.file for case in CASES})


def expected_in_scope(
    graph: GraphData, rules: Rules, source: str, parameters: Mapping[str, Any]
) -> Any:
    """A table, or the error of a query that names something hidden."""
    left = filtered_graph(graph, rules)
    try:
        columns, rows = left.run(source, parameters)
    except OmnigraphError as error:
        return error
    return [list(columns), *([plain(row[name]) for name in columns] for row in rows)]


def found_in_scope(
    graph: GraphData, rules: Rules, source: str, parameters: Mapping[str, Any], local: LocalGraphs
) -> Any:
    try:
        columns, rows = local.run(graph, source, parameters, ScopedGate(rules))
    except OmnigraphError as error:
        return error
    return [list(columns), *([plain(row[name]) for name in columns] for row in rows)]


def check_in_scope(
    graph: GraphData, rules: Rules, source: str, parameters: Mapping[str, Any], local: LocalGraphs
) -> None:
    expected = expected_in_scope(graph, rules, source, parameters)
    actual = found_in_scope(graph, rules, source, parameters, local)
    shown = f"{source}\n{parameters}\n{rules}\nexpected {expected}\nactual   {actual}"
    if isinstance(expected, OmnigraphError) or isinstance(actual, OmnigraphError):
        assert type(expected) is type(actual), shown
        if isinstance(expected, TypeCheckError):
            assert str(expected) == str(actual)
    else:
        assert same_value(expected, actual), shown


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
@pytest.mark.parametrize("kind", ["local", "derived", "cold"])
def test_conformance_cases_in_scopes(file: Path, kind: str, request: Any) -> None:
    executor: LocalGraphs = request.getfixturevalue(kind)
    for number, case in enumerate(c for c in CASES if c.file == file):
        if "local" in case.gaps:
            continue
        rules = random_rules(case.graph, random.Random(f"{number} {kind}"))
        check_in_scope(case.graph, rules, case.source, case.parameters, executor)


@given(query=random_queries(), seed=st.integers(0, 999))
@settings(max_examples=60, deadline=None, suppress_health_check=QUIET, report_multiple_bugs=False)
def test_random_queries_in_scopes(query: RandomQuery, seed: int, local: LocalGraphs) -> None:
    chance = random.Random(seed)
    for _ in range(3):
        rules = random_rules(query.graph, chance)
        check_in_scope(query.graph, rules, query.source, query.parameters, local)

"""Queries in a scope answer like queries on a graph without what is out of scope."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph_testing.executor_suite import read_suite
from omnigraph_testing.random_queries import RandomQuery, random_queries
from omnigraph_testing.scoped_graphs import check_in_scope, random_rules
from omnigraph_testing.suite_executors import LocalGraphs

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
CASES = read_suite(Path(__file__).parent.parent / "fixtures" / "conformance")


def check_cases(cases: list[Any], kind: str, executor: LocalGraphs) -> None:
    for number, case in enumerate(cases):
        if "local" not in case.gaps:
            rules = random_rules(case.graph, random.Random(f"{number} {kind}"))
            check_in_scope(case.graph, rules, case.source, case.parameters, executor)


def test_conformance_cases_in_scopes(local: LocalGraphs) -> None:
    check_cases(CASES[::2], "local", local)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["local", "derived", "cold"])
def test_all_conformance_cases_in_scopes(kind: str, request: Any) -> None:
    check_cases(CASES, kind, request.getfixturevalue(kind))


def check_random(query: RandomQuery, seed: int, local: LocalGraphs) -> None:
    chance = random.Random(seed)
    for _ in range(3):
        rules = random_rules(query.graph, chance)
        check_in_scope(query.graph, rules, query.source, query.parameters, local)


@given(query=random_queries(), seed=st.integers(0, 999))
@settings(max_examples=25, deadline=None, suppress_health_check=QUIET, report_multiple_bugs=False)
def test_random_queries_in_scopes(query: RandomQuery, seed: int, local: LocalGraphs) -> None:
    check_random(query, seed, local)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@given(query=random_queries(), seed=st.integers(0, 999))
@settings(max_examples=1000, deadline=None, suppress_health_check=QUIET)
def test_random_queries_in_scopes_for_long(
    query: RandomQuery, seed: int, local: LocalGraphs
) -> None:
    check_random(query, seed, local)

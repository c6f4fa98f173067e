"""Spark in a scope answers like the reference on a graph without what is out of scope."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from omnigraph_testing.executor_suite import read_suite
from omnigraph_testing.random_queries import RandomQuery, random_queries
from omnigraph_testing.scoped_graphs import check_in_scope, random_rules
from omnigraph_testing.suite_executors import SparkGraphs

pytestmark = [pytest.mark.xdist_group("spark_reads"), pytest.mark.timeout(900)]

QUIET = [
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.large_base_example,
    HealthCheck.function_scoped_fixture,
]
FOUND = (Phase.explicit, Phase.reuse, Phase.generate)
CASES = [
    case
    for case in read_suite(Path(__file__).parents[2] / "fixtures" / "conformance")
    if "spark" not in case.gaps
]


def check_cases(step: int, on_spark: SparkGraphs) -> None:
    for number, case in enumerate(CASES[::step]):
        rules = random_rules(case.graph, random.Random(f"{number} spark"))
        check_in_scope(case.graph, rules, case.source, case.parameters, on_spark)


def test_some_cases_in_scopes(on_spark: SparkGraphs) -> None:
    check_cases(90, on_spark)


@pytest.mark.usefixtures("many_tasks")
def test_a_few_cases_in_scopes_with_many_tasks(on_spark: SparkGraphs) -> None:
    check_cases(300, on_spark)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_conformance_cases_in_scopes(on_spark: SparkGraphs) -> None:
    check_cases(3, on_spark)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("many_tasks")
def test_many_tasks_in_scopes(on_spark: SparkGraphs) -> None:
    check_cases(20, on_spark)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@given(query=random_queries(), seed=st.integers(0, 999))
@settings(max_examples=100, deadline=None, suppress_health_check=QUIET, phases=FOUND)
def test_random_queries_in_scopes(query: RandomQuery, seed: int, on_spark: SparkGraphs) -> None:
    rules = random_rules(query.graph, random.Random(seed))
    check_in_scope(query.graph, rules, query.source, query.parameters, on_spark)

"""Random queries on random graphs: the engine gives the rows of the reference, in its order."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from omnigraph.errors import InvalidArgument
from omnigraph.plan.planner import RULES
from omnigraph_testing.executor_suite import Answer, plain, run_reference, same_value
from omnigraph_testing.graph_data import GraphData
from omnigraph_testing.random_queries import RandomQuery, random_queries
from omnigraph_testing.suite_executors import LocalGraphs

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


def expected_answer(query: RandomQuery) -> Answer:
    """The reference's answer; a query that overflows has none to compare."""
    try:
        return run_reference(query.graph, query.source, query.parameters)
    except InvalidArgument:
        reject()


def table(answer: Answer) -> list[Any]:
    columns, rows = answer
    return [list(columns), *([plain(row[name]) for name in columns] for row in rows)]


@given(random_queries(), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None, suppress_health_check=QUIET)
def test_the_order_of_the_data_does_not_matter(query: RandomQuery, chance: random.Random) -> None:
    """Also: every random query compiles, for a `TypeCheckError` is not caught."""
    lines = list(query.graph.lines)
    chance.shuffle(lines)
    shuffled = RandomQuery(
        GraphData(query.graph.schema, tuple(lines)), query.source, query.parameters
    )
    assert table(expected_answer(shuffled)) == table(expected_answer(query))


def check_local(query: RandomQuery, local: LocalGraphs) -> None:
    expected = table(expected_answer(query))
    actual = table(local.run(query.graph, query.source, query.parameters))
    shown = f"{query.source}\n{query.parameters}\nexpected {expected}\nactual   {actual}"
    assert same_value(expected, actual), shown


@given(query=random_queries())
@settings(max_examples=80, deadline=None, suppress_health_check=QUIET, report_multiple_bugs=False)
def test_local_answers_like_the_reference(query: RandomQuery, local: LocalGraphs) -> None:
    check_local(query, local)


def check_otherwise(query: RandomQuery, rules: set[str], seed: int, local: LocalGraphs) -> None:
    expected = table(expected_answer(query))
    actual = table(
        local.run_otherwise(
            query.graph, query.source, query.parameters, without_rules=rules, seed=seed
        )
    )
    shown = f"{query.source}\nwithout {rules}\nexpected {expected}\nactual   {actual}"
    assert same_value(expected, actual), shown


RULE_SETS = st.sets(st.sampled_from([rule.name for rule in RULES]))


@given(query=random_queries(), rules=RULE_SETS, seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None, suppress_health_check=QUIET, report_multiple_bugs=False)
def test_plans_do_not_change_answers(
    query: RandomQuery, rules: set[str], seed: int, local: LocalGraphs
) -> None:
    check_otherwise(query, rules, seed, local)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@given(query=random_queries(), rules=RULE_SETS, seed=st.integers(0, 99))
@settings(max_examples=3000, deadline=None, suppress_health_check=QUIET)
def test_plans_do_not_change_answers_for_long(
    query: RandomQuery, rules: set[str], seed: int, local: LocalGraphs
) -> None:
    check_otherwise(query, rules, seed, local)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@given(query=random_queries())
@settings(max_examples=3000, deadline=None, suppress_health_check=QUIET)
def test_local_answers_like_the_reference_for_long(query: RandomQuery, local: LocalGraphs) -> None:
    check_local(query, local)

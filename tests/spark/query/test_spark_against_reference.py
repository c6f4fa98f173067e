"""Random queries on random graphs: Spark gives the rows of the reference evaluator, in order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings

from omnigraph.errors import EngineCannot, InvalidArgument
from omnigraph_testing.executor_suite import Answer, plain, run_reference, same_value
from omnigraph_testing.random_queries import RandomQuery, random_queries
from omnigraph_testing.suite_executors import SparkGraphs

pytestmark = [pytest.mark.xdist_group("spark_reads"), pytest.mark.timeout(900)]

QUIET = [
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.large_base_example,
    HealthCheck.function_scoped_fixture,
]


# A failure is told as it was found: making it smaller would take hundreds of runs.
FOUND = (Phase.explicit, Phase.reuse, Phase.generate)


def table(answer: Answer) -> list[Any]:
    columns, rows = answer
    return [list(columns), *([plain(row[name]) for name in columns] for row in rows)]


def check(query: RandomQuery, on_spark: SparkGraphs) -> None:
    graph = on_spark.graph(query.graph)
    try:
        expected = table(run_reference(query.graph, query.source, query.parameters))
        found = graph.query(query.source, params=query.parameters, engine="spark")
    except (InvalidArgument, EngineCannot):
        reject()  # a number that does not fit, or a ranking
    actual = table((found.columns, found.to_pylist()))
    shown = f"{query.source}\n{query.parameters}\nexpected {expected}\nactual   {actual}"
    assert same_value(expected, actual), shown
    local = graph.query(query.source, params=query.parameters).to_arrow()
    assert found.to_arrow().schema == local.schema, query.source


@given(query=random_queries())
@settings(max_examples=15, deadline=None, suppress_health_check=QUIET, phases=FOUND)
def test_spark_answers_like_the_reference(query: RandomQuery, on_spark: SparkGraphs) -> None:
    check(query, on_spark)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@given(query=random_queries())
@settings(max_examples=300, deadline=None, suppress_health_check=QUIET, phases=FOUND)
def test_spark_answers_like_the_reference_for_long(
    query: RandomQuery, on_spark: SparkGraphs
) -> None:
    check(query, on_spark)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("many_tasks")
@given(query=random_queries())
@settings(max_examples=60, deadline=None, suppress_health_check=QUIET, phases=FOUND)
def test_many_tasks_answer_like_the_reference(query: RandomQuery, on_spark: SparkGraphs) -> None:
    check(query, on_spark)

"""Random queries with memory for a few rows: the answers of the reference, or a clear refusal."""

from __future__ import annotations

from hypothesis import HealthCheck, given, reject, settings

from omnigraph.errors import InvalidArgument, ResourceLimit
from omnigraph_testing.executor_suite import plain, run_reference, same_value
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

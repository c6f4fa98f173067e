"""Queries in a scope answer like queries on a graph without what is out of scope."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph.execute
from omnigraph.execute.query_runner import LocalExecutor
from omnigraph.ir.walk import inner_patterns
from omnigraph.plan.estimates import Statistics
from omnigraph.plan.physical import PhysicalOp
from omnigraph.plan.planner import plan_read
from omnigraph.query.compiler import compile_query
from omnigraph_testing.executor_suite import read_suite
from omnigraph_testing.random_queries import RandomQuery, random_queries
from omnigraph_testing.scoped_graphs import check_in_scope, random_rules
from omnigraph_testing.suite_executors import LocalGraphs

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
EXECUTE = Path(omnigraph.execute.__file__).parent
CASES = read_suite(Path(__file__).parent.parent / "fixtures" / "conformance")
SOME_CASES = CASES[1::2]


def check_cases(cases: list[Any], kind: str, executor: LocalGraphs) -> None:
    for number, case in enumerate(cases):
        if "local" not in case.gaps:
            rules = random_rules(case.graph, random.Random(f"{number} {kind}"))
            check_in_scope(case.graph, rules, case.source, case.parameters, executor)


def test_conformance_cases_in_scopes(local: LocalGraphs) -> None:
    check_cases(SOME_CASES, "local", local)


def operators_of(plan: Any) -> Iterator[type]:
    while plan is not None:
        yield type(plan)
        for inner in inner_patterns(plan):
            yield from operators_of(inner.pattern)
        plan = getattr(plan, "input", None)


def test_every_operator_is_in_a_case_that_runs_in_a_scope() -> None:
    """So an operator that binds entities past `SnapshotViews` is found by the tests above."""
    met: set[type] = set()
    for case in SOME_CASES:
        if case.error is None:
            plan = compile_query(case.source, case.graph.catalog).plan
            assert plan is not None
            counts = {e.table_key: 64 for e in case.graph.catalog.entity_types()}
            met |= set(operators_of(plan_read(plan, Statistics(case.graph.catalog, counts))))
    missing = {op.__name__ for op in {*LocalExecutor.operators, *get_args(PhysicalOp)} - met}
    assert missing == set()


# Where the executor reads a dataset itself. The rows go through a `PartialView`, which applies the
# rule of its table, or they are ids or addresses, which the view looks up among the rows in scope.
READS = {
    "evaluation/ranked_search.py": {"match_text", "_scores", "_bm25", "_bm25_in_scope"},
    "evaluation/storage_reads.py": {"read_found", "rows_by_id", "scan_cost", "few_values"},
    "traversal/expand.py": {"follow_by_index"},
    "views/entity_view.py": {"plain_columns", "addresses", "by_row_id", "__init__", "_in_scope"}
    | {"load_column", "addresses_at"},
}


def test_operators_read_no_dataset_past_the_views() -> None:
    found: dict[str, set[str]] = {}
    for package in ("operators", "traversal", "evaluation", "views"):
        for file in (EXECUTE / package).glob("*.py"):
            for function in ast.walk(ast.parse(file.read_text())):
                if isinstance(function, ast.FunctionDef) and any(
                    isinstance(node, ast.Attribute) and node.attr == "dataset"
                    for node in ast.walk(function)
                ):
                    found.setdefault(f"{package}/{file.name}", set()).add(function.name)
    assert found == READS


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["local", "derived", "cold", "building", "tight"])
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

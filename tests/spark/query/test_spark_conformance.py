"""Spark answers the conformance cases like every executor. Its gaps raise `EngineCannot`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import EngineCannot
from omnigraph_testing.executor_suite import ConformanceCase, check_conformance, read_suite
from omnigraph_testing.suite_executors import SparkGraphs

pytestmark = [pytest.mark.xdist_group("spark_reads"), pytest.mark.timeout(900)]

CASES = read_suite(Path(__file__).parents[2] / "fixtures" / "conformance")
SHARED = [case for case in CASES if "spark" not in case.gaps]
MISSING = [case for case in CASES if "spark" in case.gaps]
EVERY = 6


def chosen(cases: list[ConformanceCase], often: int, first: int = 0) -> list[Any]:
    """Every so many by default: each costs Spark hundreds of times what it costs us."""
    return [
        pytest.param(case, id=str(case), marks=[] if n % often == first else [pytest.mark.slow])
        for n, case in enumerate(cases)
    ]


@pytest.mark.parametrize("case", chosen(SHARED, EVERY))
def test_spark(case: ConformanceCase, on_spark: SparkGraphs) -> None:
    check_conformance(case, on_spark.run)


@pytest.mark.usefixtures("many_tasks")
@pytest.mark.parametrize("case", chosen(SHARED, 5 * EVERY, 1))
def test_spark_in_many_tasks(case: ConformanceCase, on_spark: SparkGraphs) -> None:
    check_conformance(case, on_spark.run)


@pytest.mark.parametrize("case", MISSING, ids=str)
def test_gaps_are_told(case: ConformanceCase, on_spark: SparkGraphs) -> None:
    with pytest.raises(EngineCannot, match="use engine='local'"):
        on_spark.run(case.graph, case.source, case.parameters)

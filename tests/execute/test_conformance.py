"""Every executor answers the conformance cases alike; gaps are declared in the cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omnigraph_testing.executor_suite import (
    ConformanceCase,
    check_conformance,
    read_suite,
    run_reference,
)
from omnigraph_testing.suite_executors import ColdGraphs, DerivedGraphs, LocalGraphs

CASES = read_suite(Path(__file__).parent.parent / "fixtures" / "conformance")


def cases_for(executor: str) -> list[Any]:
    """The cases, those this executor declares as gaps expected to fail."""
    return [
        pytest.param(
            case,
            id=str(case),
            marks=[pytest.mark.xfail(strict=True, reason=case.gaps[executor])]
            if executor in case.gaps
            else [],
        )
        for case in CASES
    ]


@pytest.mark.parametrize("case", cases_for("reference"))
def test_reference(case: ConformanceCase) -> None:
    check_conformance(case, run_reference)


@pytest.mark.parametrize("case", cases_for("local"))
def test_local(case: ConformanceCase, local: LocalGraphs) -> None:
    check_conformance(case, local.run)


@pytest.mark.parametrize("case", cases_for("local"))
def test_local_derived(case: ConformanceCase, derived: DerivedGraphs) -> None:
    check_conformance(case, derived.run)


@pytest.mark.parametrize("case", cases_for("local"))
def test_local_cold(case: ConformanceCase, cold: ColdGraphs) -> None:
    check_conformance(case, cold.run)

"""Every executor answers the conformance cases alike; gaps are declared in the cases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.testing.executor_suite import (
    Answer,
    ConformanceCase,
    check_conformance,
    read_suite,
    run_reference,
)
from omnigraph.testing.graph_data import GraphData

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


class LocalGraphs:
    """Real graphs, one per case file, written once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[int, Graph] = {}

    def run(self, graph: GraphData, source: str, parameters: Mapping[str, Any]) -> Answer:
        if id(graph) not in self._open:
            opened = init(self._folder / f"{len(self._open)}.omni", graph.schema)
            opened.apply(graph.edits())
            self._open[id(graph)] = opened
        result = self._open[id(graph)].query(source, params=parameters)
        return result.columns, result.to_pylist()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> LocalGraphs:
    return LocalGraphs(tmp_path_factory.mktemp("conformance"))


@pytest.mark.parametrize("case", cases_for("local"))
def test_local(case: ConformanceCase, local: LocalGraphs) -> None:
    check_conformance(case, local.run)

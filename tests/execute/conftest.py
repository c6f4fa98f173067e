from __future__ import annotations

from collections.abc import Iterator

import pytest

from omnigraph.execute.evaluation import storage_reads
from omnigraph.execute.operators import point_operators
from omnigraph.execute.traversal import expand
from omnigraph_testing.suite_executors import (
    BuildingGraphs,
    ColdGraphs,
    DerivedGraphs,
    LocalGraphs,
    TightGraphs,
)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> LocalGraphs:
    return LocalGraphs(tmp_path_factory.mktemp("local"))


@pytest.fixture(scope="module")
def derived(tmp_path_factory: pytest.TempPathFactory) -> DerivedGraphs:
    return DerivedGraphs(tmp_path_factory.mktemp("derived"))


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ColdGraphs]:
    with pytest.MonkeyPatch.context() as patch:
        read_storage(patch)
        yield ColdGraphs(tmp_path_factory.mktemp("cold"))


@pytest.fixture(scope="module")
def building(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BuildingGraphs]:
    with pytest.MonkeyPatch.context() as patch:
        read_storage(patch)
        graphs = BuildingGraphs(tmp_path_factory.mktemp("building"))
        yield graphs
        assert graphs.made
        assert graphs.failed


def read_storage(patch: pytest.MonkeyPatch) -> None:
    """Every table counts as large, indexed and not worth reading yet."""
    for free in ("_SMALL", "_LOOKUP", "_PER_ID", "_PER_SCANNED_ROW", "_PER_FRAGMENT"):
        patch.setattr(storage_reads, free, 0)
    for free in ("_HOP", "_PER_SOURCE"):
        patch.setattr(expand, free, 0)


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TightGraphs]:
    """Memory for about ten rows, and every hop asks beforehand."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expand, "_FEW_ROWS", 0)
        patch.setattr(point_operators, "_FEW_ROWS", 0)
        yield TightGraphs(tmp_path_factory.mktemp("tight"))

from __future__ import annotations

import pytest

from omnigraph.testing.local_graphs import LocalGraphs
from omnigraph.testing.piecemeal_graphs import PiecemealGraphs


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> LocalGraphs:
    return LocalGraphs(tmp_path_factory.mktemp("local"))


@pytest.fixture(scope="module")
def piecemeal(tmp_path_factory: pytest.TempPathFactory) -> PiecemealGraphs:
    return PiecemealGraphs(tmp_path_factory.mktemp("piecemeal"))

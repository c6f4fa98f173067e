from __future__ import annotations

import pytest

from omnigraph.testing.local_graphs import LocalGraphs


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> LocalGraphs:
    return LocalGraphs(tmp_path_factory.mktemp("local"))

"""`@default(now())` and `@default(uuid())` in loads on Spark, in small pieces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph import init
from omnigraph.graph.handle import Graph
from omnigraph_testing.generated_suite import CHECKS, SCHEMA
from omnigraph_testing.load_engines import SMALL_PIECES

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_generated(check: Callable[[Graph, Path, str], None], tmp_path: Path) -> None:
    check(init(tmp_path / "g", SCHEMA, settings=SMALL_PIECES), tmp_path, "spark")

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from omnigraph_testing.suite_executors import SparkGraphs


@pytest.fixture(scope="module")
def on_spark(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> SparkGraphs:
    return SparkGraphs(tmp_path_factory.mktemp("spark"))


@pytest.fixture
def many_tasks(spark: Any) -> Iterator[None]:
    """No query is small: executors read fragments, rows are shuffled, answers come in batches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("omnigraph.spark.query.executor.SMALL_ROWS", -1)
        yield

"""The page for Spark users runs on the session that all Spark tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from page_runner import PageRun

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(900)
def test_examples(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = PageRun("docs/spark.md", tmp_path)
    assert run.follow(PAGE.read_text(encoding="utf-8")) > 5

"""The pages that need Spark run on the session that all Spark tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from page_runner import PageRun

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", ["spark.md", "pipelines.md"])
def test_examples(spark: Any, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    run = PageRun(f"docs/{page}", tmp_path)
    assert run.follow((DOCS / page).read_text(encoding="utf-8")) > 5

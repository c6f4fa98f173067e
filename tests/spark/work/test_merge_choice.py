from __future__ import annotations

import pytest

from omnigraph.settings.models import PipelineSettings
from omnigraph.spark import engine_choice
from omnigraph.spark.engine_choice import choose_merge_engine


@pytest.mark.parametrize(
    ("session", "rows", "engine", "reason"),
    [
        (None, 10**9, "local", "no session is up"),
        (object(), None, "local", "nobody knows how many rows changed"),
        (object(), 999, "local", "999 changed rows are less than 1,000"),
        (object(), 1000, "spark", "1,000 changed rows are 1,000 or more"),
    ],
)
def test_auto_merges_where_a_session_is_up(
    monkeypatch: pytest.MonkeyPatch, session: object, rows: int | None, engine: str, reason: str
) -> None:
    monkeypatch.setattr(engine_choice, "running_session", lambda: session)
    choice = choose_merge_engine("auto", rows, PipelineSettings(spark_merge_from_rows=1000))
    assert choice == (engine, reason)
    assert choose_merge_engine("spark", 1, PipelineSettings()) == ("spark", "asked for")

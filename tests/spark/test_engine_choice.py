from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import InvalidArgument
from omnigraph.settings.models import PipelineSettings
from omnigraph.spark import engine_choice
from omnigraph.spark.engine_choice import EngineChoice, choose_engine, choose_merge_engine

SETTINGS = PipelineSettings(spark_from_bytes=2 * 1024**2)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "x.ndjson"
    path.write_bytes(b" " * (3 * 1024**2 // 2))
    return path


@pytest.mark.parametrize(
    ("session", "engine", "reason"),
    [
        (None, "local", "1.5 MiB is less than 2 MiB, and no session is up"),
        (object(), "spark", "1.5 MiB is 1 MiB or more, with a session up"),
    ],
)
def test_auto_goes_by_size_and_by_what_is_up(
    data: Path, monkeypatch: pytest.MonkeyPatch, session: object, engine: str, reason: str
) -> None:
    monkeypatch.setattr(engine_choice, "running_session", lambda: session)
    choice = choose_engine("auto", data, None, SETTINGS)
    assert (choice.engine, choice.reason) == (engine, reason)


def test_a_large_input_without_pyspark_is_loaded_here(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_choice, "running_session", lambda: None)
    monkeypatch.setattr(engine_choice, "find_spec", lambda name: None)
    choice = choose_engine("auto", [data, data], None, SETTINGS)
    assert choice.engine == "local"
    assert "pyspark is not installed" in choice.reason


def test_what_is_asked_for_is_done(data: Path) -> None:
    assert choose_engine("spark", data, None, SETTINGS).engine == "spark"
    assert choose_engine("local", [data] * 9, None, SETTINGS).engine == "local"
    with pytest.raises(InvalidArgument, match="no load engine 'flink'"):
        choose_engine("flink", data, None, SETTINGS)


@pytest.mark.parametrize(
    ("session", "rows", "engine", "reason"),
    [
        (None, 10**9, "local", "no session is up"),
        (object(), None, "local", "the number of changed rows is not known"),
        (object(), 999, "local", "999 changed rows are less than 1,000"),
        (object(), 1000, "spark", "1,000 changed rows are 1,000 or more"),
    ],
)
def test_auto_merges_where_a_session_is_up(
    monkeypatch: pytest.MonkeyPatch, session: object, rows: int | None, engine: str, reason: str
) -> None:
    monkeypatch.setattr(engine_choice, "running_session", lambda: session)
    choice = choose_merge_engine("auto", rows, PipelineSettings(spark_merge_from_rows=1000))
    assert choice == EngineChoice(engine, reason)
    asked = choose_merge_engine("spark", 1, PipelineSettings())
    assert asked == EngineChoice("spark", "asked for")

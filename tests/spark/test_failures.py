"""Errors on their way from Spark's workers to the caller."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException

from omnigraph import init
from omnigraph.errors import (
    InvalidArgument,
    NotFound,
    SparkUnavailable,
    ValidationFailed,
)
from omnigraph.graph.handle import Graph
from omnigraph.spark import GraphReader, typed_errors
from omnigraph.spark import session as sessions
from omnigraph.spark.failures import TypedSession, errors_for_spark, omnigraph_error

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]


@pytest.fixture
def people(tmp_path: Path) -> Graph:
    return init(tmp_path / "people.omni", "node Person { name: String @key  age: I32? }")


def shown(error: BaseException) -> str:
    """The text that Spark makes of an error of a worker."""
    return "\n".join(["Traceback …", f"{type(error).__name__}: {error}", *error.__notes__])


def test_class_and_fields_survive_the_way_as_text() -> None:
    with pytest.raises(ValidationFailed) as raised, errors_for_spark():
        raise ValidationFailed("2 violations", violations=[{"line": 1}], total=2)
    found = omnigraph_error(RuntimeError(shown(raised.value)))
    assert isinstance(found, ValidationFailed)
    assert (found.message, found.total, found.violations) == ("2 violations", 2, [{"line": 1}])


def test_a_worker_without_our_packages_names_the_way_out() -> None:
    with pytest.raises(SparkUnavailable) as raised, errors_for_spark():
        import no_such_package  # type: ignore[import-not-found]  # noqa: F401
    assert "cannot import no_such_package" in raised.value.message
    assert "PYSPARK_PYTHON" in raised.value.message
    assert sys.executable in raised.value.message
    assert isinstance(omnigraph_error(RuntimeError(shown(raised.value))), SparkUnavailable)


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: omnigraph. Make", "omnigraph"),
        ("ModuleNotFoundError: No module named 'omnigraph.spark'", "omnigraph.spark"),
        ("ModuleNotFoundError: No module named 'pyarrow'", "pyarrow"),
    ],
)
def test_workers_that_run_another_python_are_told_apart(text: str, missing: str) -> None:
    with (
        pytest.raises(SparkUnavailable, match=f"cannot import {missing},") as raised,
        typed_errors(),
    ):
        raise RuntimeError(f"Job aborted:\n{text}\n  at java.lang.Thread")
    assert f"PYSPARK_PYTHON={sys.executable}" in raised.value.message


@pytest.mark.parametrize(
    "text",
    [
        "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: omnigraphs. Make",
        "No module named 'my_functions'",
        "omnigraph-error: rubbish",
        'omnigraph-error: {"class": "NoSuchError", "message": "x", "fields": {}}',
    ],
)
def test_other_errors_stay_as_they_are(text: str) -> None:
    with pytest.raises(RuntimeError, match="^" + text[:12].replace("[", r"\[")), typed_errors():
        raise RuntimeError(text)


def test_sessions_that_we_start_raise_typed_errors(spark: Any, people: Graph) -> None:
    reading = spark.read.format("omnigraph")
    with pytest.raises(NotFound, match="no type 'Persn'") as raised:
        reading.option("type", "Persn").load(people.uri)
    assert raised.value.fields["type"] == "Persn"
    assert isinstance(raised.value.__cause__, AnalysisException)
    with pytest.raises(PySparkException):
        spark.sql("SELECT * FROM no_such_table")
    other = spark.newSession()
    with pytest.raises(InvalidArgument, match="no option 'tipe'"):
        other.read.format("omnigraph").option("tipe", "Person").load(people.uri)


def test_other_sessions_show_our_message_first(spark: Any, people: Graph) -> None:
    assert sessions._ours is not None
    sessions._ours.typed.undo()
    try:
        reading = spark.read.format("omnigraph").option("type", "Persn")
        with pytest.raises(AnalysisException) as raised:
            reading.load(people.uri)
        text = str(raised.value)
        assert "Traceback" not in text
        assert text.splitlines()[0].endswith(
            "omnigraph.errors.NotFound: no type 'Persn' in the schema; did you mean 'Person'?"
        )
        with pytest.raises(NotFound), typed_errors():
            reading.load(people.uri)
        reader = GraphReader(spark, people.uri)
        with pytest.raises(NotFound):
            reader.frame("Persn")
        with pytest.raises(InvalidArgument, match="no 'agee'"):
            reader.frame("Person", ["agee"])
        with pytest.raises(InvalidArgument, match="'agee' is not a column"):
            reader.frame("Person", where="agee = 3")
    finally:
        object.__setattr__(sessions._ours, "typed", TypedSession(connect=False))


def test_a_note_is_one_line_of_json() -> None:
    with pytest.raises(InvalidArgument) as raised, errors_for_spark():
        raise InvalidArgument("first\nsecond", option="type")
    (note,) = raised.value.__notes__
    assert json.loads(note.removeprefix("omnigraph-error: ")) == {
        "class": "InvalidArgument",
        "message": "first\nsecond",
        "fields": {"option": "type"},
    }

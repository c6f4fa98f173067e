"""Both readers of the format give the same: columns through the JVM, and rows from Python.

Sessions with the jar read columns. The same source under another name is read by Spark's own
classes for sources in Python, as in a session without the jar.
"""

from __future__ import annotations

import datetime as dt
import shutil
import zipfile
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from omnigraph import init
from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.graph.handle import Graph
from omnigraph.spark.failures import typed_errors
from omnigraph.spark.jvm import columnar_jar, task_frame
from omnigraph.spark.source.source import OmnigraphSource
from omnigraph.writes.shape import Edit
from omnigraph_testing.spark_jar import make_jar, sources

pytestmark = [pytest.mark.xdist_group("spark_reads"), pytest.mark.timeout(900)]

IN_PYTHON = "omnigraph_in_python"
SCHEMA = """
node Thing { name: String @key  i: I32?  l: I64?  u: U32?  n: U64?  f: F32?  d: F64?  ok: Bool?
             born: Date?  seen: DateTime?  tags: [String]?  vector: Vector(3)?  file: Blob?
             kind: enum(a, b)? }
"""
MOMENT = dt.datetime(2020, 1, 1, 0, 0, 0, 1000, tzinfo=dt.UTC)
FULL = {
    "name": "full", "i": -5, "l": 2**40, "u": 2**32 - 1, "n": 2**64 - 1, "f": 0.5, "d": 0.25,
    "ok": True, "born": dt.date(1999, 1, 1), "seen": MOMENT, "tags": ["x", "y"],
    "vector": [1.0, 2.0, 3.0], "file": b"bytes", "kind": "b",
}  # fmt: skip


@pytest.fixture(params=["omnigraph", IN_PYTHON])
def reader(spark: Any, request: pytest.FixtureRequest) -> Any:
    """`spark.read` of one of the two."""
    session = spark.newSession()

    class InPython(OmnigraphSource):
        @classmethod
        def name(cls) -> str:
            return "omnigraph_in_python"

    session.dataSource.register(InPython)
    return lambda: session.read.format(request.param)


@pytest.fixture
def numbers(people: Graph) -> Graph:
    """A hundred persons, in several fragments, some of them deleted."""
    for start in range(0, 120, 40):
        rows = [{"name": f"p{n:03}", "age": n} for n in range(start, start + 40)]
        people.apply({"Person": Edit(insert=rows)})
    people.mutate("query q() { delete Person where age >= 100 }")
    return people


def persons(reader: Any, graph: Graph, **options: str) -> Any:
    return reader().option("type", "Person").options(**options).load(graph.uri)


def test_sessions_of_ours_read_columns(spark: Any, numbers: Graph) -> None:
    frame = spark.read.format("omnigraph").option("type", "Person").load(numbers.uri)
    wanted = frame.where("age > 50 AND upper(city) = 'X'").select("id")
    plan = wanted._jdf.queryExecution().executedPlan().toString()
    assert "ColumnarToRow" in plan
    assert "BatchScan omnigraph[id" in plan
    assert "born" not in plan


def test_every_type(reader: Any, tmp_path: Path) -> None:
    graph = init(tmp_path / "g", SCHEMA)
    graph.apply({"Thing": Edit(insert=[FULL, {"name": "empty"}])})
    frame = reader().option("type", "Thing").load(graph.uri).orderBy("id")
    empty, full = (row.asDict() for row in frame.collect())
    seen = full.pop("seen")
    assert seen.astimezone(dt.UTC) == MOMENT if seen.tzinfo else seen is not None
    wanted = {k: v for k, v in FULL.items() if k != "seen"}
    assert full == {"id": "full", **wanted, "n": Decimal(2**64 - 1)}
    assert {empty.pop(k) for k in ("id", "name")} == {"empty"}
    assert set(empty.values()) == {None}


def test_filters_of_scans_stay_apart(reader: Any, numbers: Graph) -> None:
    frame = persons(reader, numbers)
    few, many = frame.where("age < 10"), frame.where("age >= 50")
    assert (few.count(), frame.count()) == (10, 100)
    assert few.unionAll(many).count() == 60
    assert (few.count(), many.count(), few.count()) == (10, 50, 10)
    frame.createOrReplaceTempView("persons")
    parts = ", ".join(
        f"(SELECT count(*) FROM persons WHERE {condition})"
        for condition in ("age < 10", "age >= 50", "true")
    )
    assert tuple(frame.sparkSession.sql(f"SELECT {parts}").first()) == (10, 50, 100)
    ages = few.selectExpr("age + 60 AS sixty_more")
    assert many.join(ages, many.age == ages.sixty_more, "left_semi").count() == 10


CONDITIONS = {
    "age = 7": 1, "age <> 7": 99, "age <=> NULL": 0, "NOT (age <=> 7)": 99, "age IN (1, 2, 300)": 2,
    "age NOT IN (1, 2)": 98, "age IN (1, NULL)": 1, "age > 2147483646": 0, "age < 3 OR age > 97": 5,
    "id = 'p003'": 1, "id LIKE 'p00%'": 10, "id >= 'p090'": 10, "city IS NULL": 100,
    "city = 'x'": 0,
    "score > 0.5": 0, "seen < timestamp'2020-01-01 00:00:00.0005'": 0, "born = date'2020-01-01'": 0,
    "n = 18446744073709551615": 0, "n > -1": 0, "ok": 0, "NOT ok": 0, "upper(id) = 'P003'": 1,
}  # fmt: skip


def test_conditions(reader: Any, numbers: Graph) -> None:
    frame = persons(reader, numbers)
    assert {text: frame.where(text).count() for text in CONDITIONS} == CONDITIONS


def test_moments_between_milliseconds(reader: Any, people: Graph) -> None:
    people.apply({"Person": Edit(insert=[{"name": "a", "seen": MOMENT}])})
    frame = persons(reader, people)
    assert frame.where("seen < timestamp'2020-01-01 00:00:00.0015Z'").count() == 1
    assert frame.where("seen > timestamp'2020-01-01 00:00:00.0005Z'").count() == 1
    assert frame.where("seen = timestamp'2020-01-01 00:00:00.001Z'").count() == 1


def test_states_and_options(reader: Any, numbers: Graph) -> None:
    before = numbers.snapshot().graph_commit_id
    numbers.tags.create("old", before)
    numbers.branches.create("review")
    numbers.apply({"Person": Edit(insert=[{"name": "r"}])}, "review")
    numbers.mutate("query q() { delete Person where age < 50 }")
    counts = [
        persons(reader, numbers, **options).count()
        for options in ({}, {"branch": "review"}, {"commit": before}, {"tag": "old"})
    ]
    assert counts == [50, 101, 100, 100]
    few = persons(reader, numbers, columns="age,id", filter="age >= 90").where("age < 95")
    assert few.columns == ["age", "id"]
    assert few.count() == 5


def test_errors_are_typed(reader: Any, numbers: Graph) -> None:
    with typed_errors(), pytest.raises(NotFound, match="no type 'Nobody'"):
        reader().option("type", "Nobody").load(numbers.uri)
    with typed_errors(), pytest.raises(InvalidArgument, match="did you mean 'branch'"):
        persons(reader, numbers, brunch="x")


def test_no_rows(reader: Any, people: Graph) -> None:
    frame = persons(reader, people)
    assert (frame.count(), frame.where("age > 3").collect()) == (0, [])


def test_a_scan_that_ends_early(reader: Any, numbers: Graph) -> None:
    assert len(persons(reader, numbers, rows_per_partition="10").limit(3).collect()) == 3


def test_task_frames_without_the_jar_are_the_same(spark: Any) -> None:
    def run(batches: Any) -> Any:
        import pyarrow as pa

        for batch in batches:
            yield pa.record_batch({"n": batch.column(0).cast(pa.int32())})

    class WithoutJar:
        range = spark.range

    frames = (task_frame(session, 3, run, "n int") for session in (spark, WithoutJar()))
    with_jar, without = (sorted(row.n for row in frame.collect()) for frame in frames)
    assert with_jar == without == [0, 1, 2]


def test_the_jar_is_made_from_the_sources() -> None:
    jar = columnar_jar()
    assert jar is not None, "no jar for this pyspark: python -m omnigraph_testing.spark_jar"
    with zipfile.ZipFile(jar) as made:
        kept = {name: made.read(name) for name in made.namelist() if name.endswith(".java")}
    assert kept == sources()


@pytest.mark.skipif(shutil.which("javac") is None, reason="needs javac")
def test_the_sources_compile(tmp_path: Path) -> None:
    make_jar(tmp_path / "made.jar")
    with (
        zipfile.ZipFile(tmp_path / "made.jar") as made,
        zipfile.ZipFile(str(columnar_jar())) as jar,
    ):
        assert sorted(made.namelist()) == sorted(jar.namelist())
    assert import_module("pyspark").__version__ in str(columnar_jar())

from __future__ import annotations

import datetime as dt
import json
import pickle
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

from omnigraph import init
from omnigraph.errors import InvalidArgument, KeyConflict, NotFound, ValidationFailed
from omnigraph.graph.handle import Graph
from omnigraph.spark import GraphWriter
from omnigraph.spark.source.source import OmnigraphSource
from omnigraph.writes.shape import Edit
from omnigraph_testing.graph_helpers import exported
from omnigraph_testing.invariants import assert_at_rest
from omnigraph_testing.load_suite import stored_files
from omnigraph_testing.spark_clusters import claim

pytestmark = [pytest.mark.xdist_group("spark_reads"), pytest.mark.timeout(900)]


def save(df: Any, graph: Graph, kind: str = "Person", mode: str = "append", **options: str) -> None:
    writer = df.write.format("omnigraph").option("type", kind).options(**options)
    writer.mode(mode).save(graph.uri)


def ids(graph: Graph, kind: str = "Person", branch: str = "main") -> list[str]:
    return sorted(graph.read(kind, branch).column("id").to_pylist())


def people_frame(spark: Any, *names: str, age: int = 1) -> Any:
    return spark.createDataFrame([(name, age) for name in names], "name string, age int")


def test_append_merge_overwrite(spark: Any, people: Graph) -> None:
    save(people_frame(spark, "a", "b", "c").repartition(3), people, message="first")
    assert ids(people) == ["a", "b", "c"]
    newest = people.commits.list(limit=1)[0]
    assert (newest.message, newest.operation) == ("first", "load")
    save(people_frame(spark, "b", "d", age=7), people, write_mode="merge")
    assert {r["id"]: r["age"] for r in people.read("Person").to_pylist()} == {
        "a": 1, "b": 7, "c": 1, "d": 7,
    }  # fmt: skip
    edges = spark.createDataFrame([("a", "b"), ("b", "d")], "`from` string, `to` string")
    save(edges, people, "Knows")
    save(edges.toDF("src", "dst"), people, "Knows")
    assert len(ids(people, "Knows")) == 4
    save(people_frame(spark, "b", "d"), people, write_mode="overwrite")
    assert ids(people) == ["b", "d"]
    assert len(ids(people, "Knows")) == 2
    save(people_frame(spark), people, mode="overwrite")
    assert ids(people) == [] == ids(people, "Knows")
    assert_at_rest(people)


def test_a_frame_without_its_bad_rows(spark: Any, people: Graph, tmp_path: Path) -> None:
    save(people_frame(spark, "a"), people)
    bad = tmp_path / "bad.ndjson"
    rows = people_frame(spark, "b", "a", "c").coalesce(1)
    with pytest.raises(KeyConflict):
        save(rows, people, rejects=str(bad))
    (listed,) = map(json.loads, bad.read_text().splitlines())
    assert (listed["line"], listed["rule"]) == (2, "duplicate_id")
    bad.unlink()
    save(rows, people, on_error="skip", rejects=str(bad))
    assert ids(people) == ["a", "b", "c"]
    assert json.loads(bad.read_text()) == listed
    with pytest.raises(InvalidArgument, match="on_error"):
        save(rows, people, on_error="ignore")
    assert_at_rest(people)


def test_patch_changes_only_the_columns_of_the_frame(spark: Any, people: Graph) -> None:
    people.load([{"name": "a", "age": 1}, {"name": "b", "age": 2}], type="Person")
    people.load([{"from": "a", "to": "b", "id": "k"}], type="Knows")
    files = stored_files(people)
    names = spark.createDataFrame([("a",), ("b",)], "name string")
    save(names.repartition(2), people, write_mode="patch")
    save(names.toDF("id"), people, write_mode="patch")
    edges = spark.createDataFrame([("a", "b")], "`from` string, `to` string")
    save(edges, people, "Knows", write_mode="patch")
    assert stored_files(people) == files  # nothing changed, and the tasks left no file
    rows = [("b", None), ("c", 3)]
    save(spark.createDataFrame(rows, "name string, age int"), people, write_mode="patch")
    found = {r["id"]: r["age"] for r in people.read("Person").to_pylist()}
    assert found == {"a": 1, "b": None, "c": 3}
    before = people.snapshot().graph_commit_id
    save(spark.createDataFrame(rows, "name string, age int"), people, write_mode="patch")
    assert people.snapshot().graph_commit_id == before
    with pytest.raises(ValidationFailed, match="'from' is required"):
        save(spark.createDataFrame([("new",)], "id string"), people, "Knows", write_mode="patch")
    writer = GraphWriter(people.uri, mode="patch").add("Person", names).add("Knows", edges)
    assert writer.commit().commit is None
    assert people.snapshot().graph_commit_id == before
    assert_at_rest(people)


def test_a_branch_gets_the_rows_and_main_does_not(spark: Any, people: Graph) -> None:
    people.apply({"Person": Edit(insert=[{"name": "a"}])})
    people.branches.create("review")
    save(people_frame(spark, "b"), people, branch="review", actor="eve")
    assert (ids(people), ids(people, branch="review")) == (["a"], ["a", "b"])
    assert people.commits.list("review", 1)[0].actor_id == "eve"
    assert_at_rest(people)


def test_bad_rows_name_their_place_and_leave_nothing(spark: Any, people: Graph) -> None:
    before = people.snapshot().graph_commit_id
    twice = people_frame(spark, "a", "b", "a").coalesce(1)
    with pytest.raises(ValidationFailed) as raised:
        save(twice, people)
    assert raised.value.total == 1
    assert "<DataFrame>:" in raised.value.message
    edges = spark.createDataFrame([("a", "b")], "`from` string, `to` string")
    with pytest.raises(ValidationFailed, match="'a'"):
        save(edges, people, "Knows")
    with pytest.raises(InvalidArgument, match="no property 'nmae'"):
        save(people_frame(spark, "a").withColumnRenamed("age", "nmae"), people)
    with pytest.raises(ValidationFailed, match="is not an I32"):
        save(people_frame(spark, "a").selectExpr("name", "1.5 AS age"), people)
    assert people.snapshot().graph_commit_id == before
    assert_at_rest(people)
    save(people_frame(spark, "a"), people)
    with pytest.raises(KeyConflict):
        save(people_frame(spark, "a", "z"), people)


def test_an_unknown_column_is_refused_before_a_task_starts(
    spark: Any, people: Graph, tmp_path: Any
) -> None:
    marker = str(tmp_path / "ran")

    def mark(batches: Any) -> Any:
        claim(marker)
        yield from batches

    frame = people_frame(spark, "a")
    watched = frame.mapInArrow(mark, frame.schema)
    for wrong, said in (
        (watched.withColumnRenamed("age", "agee"), "no property 'agee'; did you mean 'age'"),
        (watched.withColumnRenamed("age", "name"), "'name' occurs twice"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            save(wrong, people)
        with pytest.raises(InvalidArgument, match=said):
            GraphWriter(people.uri).add("Person", wrong).commit()
    with pytest.raises(InvalidArgument, match="no type 'Persn'"):
        GraphWriter(people.uri).add("Persn", watched).commit()
    with pytest.raises(InvalidArgument, match="no load mode 'upsert'"):
        GraphWriter(people.uri, mode="upsert").add("Person", watched).commit()
    assert not (tmp_path / "ran").exists()
    assert ids(people) == []
    save(watched, people)
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({}, InvalidArgument, "give the type"),
        ({"type": "Person", "write_mode": "upsert"}, InvalidArgument, "no load mode 'upsert'"),
        ({"type": "Person", "branch": "no"}, NotFound, "no"),
        ({"type": "Nobody"}, InvalidArgument, "no type 'Nobody'"),
        (
            {"type": "Person", "modus": "x"},
            InvalidArgument,
            "no option 'modus'; known here: actor, branch",
        ),
    ],
)
def test_bad_options(
    people: Graph, options: dict[str, str], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        OmnigraphSource({"path": people.uri, **options}).writer(StructType(), overwrite=False)


def test_the_same_idempotency_key_writes_once(spark: Any, people: Graph) -> None:
    for _ in range(2):
        save(people_frame(spark, "a"), people, idempotency_key="k")
    assert ids(people) == ["a"]


EVERYTHING = """
node Everything {
  name: String @key
  flag: Bool?  small: I32?  big: I64?  u32: U32?  u64: U64?  f32: F32?  f64: F64?
  day: Date?  moment: DateTime?  mood: enum(good, bad)?  words: [String]?  huge: [U64]?
  days: [Date]?  place: Vector(3)?  photo: Blob?
}
"""
ROWS: list[dict[str, Any]] = [
    {"name": "nothing"},
    {
        "name": "low", "flag": False, "small": -(2**31), "big": -(2**63), "u32": 0, "u64": 0,
        "f32": -3.4028234663852886e38, "f64": -1.7976931348623157e308, "day": dt.date(1, 1, 1),
        "moment": dt.datetime(1, 1, 2, tzinfo=dt.UTC), "mood": "bad", "words": [], "huge": [0],
        "days": [dt.date(9999, 12, 31)], "place": [0.0, -0.0, 1.401298464324817e-45],
        "photo": b"",
    },
    {
        "name": "high", "flag": True, "small": 2**31 - 1, "big": 2**63 - 1, "u32": 2**32 - 1,
        "u64": 2**64 - 1, "f32": 3.4028234663852886e38, "f64": 1.7976931348623157e308,
        "day": dt.date(9999, 12, 31),
        "moment": dt.datetime(9999, 12, 30, 23, 59, 59, 999000, tzinfo=dt.UTC), "mood": "good",
        "words": ["", "ü\x00'", "x" * 70000], "huge": [2**64 - 1, 2**63], "days": [],
        "place": [1.0, 2.0, 3.0], "photo": bytes(range(256)) * 300,
    },
]  # fmt: skip


def test_every_type_round_trips_at_its_extremes(spark: Any, tmp_path: Any) -> None:
    first, second = (init(tmp_path / name, EVERYTHING) for name in ("one", "two"))
    first.apply({"Everything": Edit(insert=ROWS)})
    df = spark.read.format("omnigraph").option("type", "Everything").load(first.uri)
    row = df.filter("name = 'high'").select("u64", "huge", "place", "words").collect()[0]
    assert row.u64 == Decimal(2**64 - 1)
    assert row.huge == [Decimal(2**64 - 1), Decimal(2**63)]
    save(df.drop("id").repartition(2), second, "Everything")
    first_lines, second_lines = (sorted(exported(g).splitlines()) for g in (first, second))
    assert second_lines == first_lines
    assert first.load({"Everything": df.drop("id")}, mode="merge").commit is None


def test_a_task_that_fails_is_tried_again_and_adopted_once(
    spark: Any, people: Graph, tmp_path: Any
) -> None:
    marker = str(tmp_path / "failed")

    def fail_once(batches: Any) -> Any:
        yield from batches
        if claim(marker):
            raise RuntimeError("a task dies behind its last row")

    frame = people_frame(spark, *(f"p{i}" for i in range(40))).repartition(4)
    save(frame.mapInArrow(fail_once, frame.schema), people)
    assert (tmp_path / "failed").exists()
    assert ids(people) == sorted(f"p{i}" for i in range(40))
    assert_at_rest(people)


WORKER = """
import pickle, sys
pickle.load(open(sys.argv[1], "rb"))
print(*sorted({m.split(".")[1] for m in sys.modules if m.startswith("omnigraph.")}))
"""


def test_executors_that_write_import_no_commit_path(people: Graph, tmp_path: Any) -> None:
    options = {"path": people.uri, "type": "Person"}
    task = tmp_path / "task"
    task.write_bytes(pickle.dumps(OmnigraphSource(options).writer(StructType(), overwrite=False)))
    done = subprocess.run(
        [sys.executable, "-c", WORKER, str(task)], capture_output=True, text=True, check=True
    )
    assert not {"graph", "commit", "query", "execute", "plan", "merge"} & set(done.stdout.split())


def test_the_settings_of_a_config_file_apply(spark: Any, tmp_path: Any) -> None:
    schema = 'node Doc { text: String @key  vec: Vector(4)? @embed("text", model="tiny") }\n'
    graph = init(tmp_path / "docs.omni", schema)
    config = tmp_path / "config.yaml"
    frame = spark.createDataFrame([("hello",)], "text string")
    config.write_text("settings:\n  embedding: {provider: mock, model: tiny, widht: 4}\n")
    with pytest.raises(InvalidArgument, match="did you mean 'width'"):
        save(frame, graph, "Doc", config=str(config))
    config.write_text("settings:\n  embedding: {provider: mock, model: tiny, width: 4}\n")
    save(frame, graph, "Doc", config=str(config))
    (row,) = graph.read("Doc").to_pylist()
    assert len(row["vec"]) == 4

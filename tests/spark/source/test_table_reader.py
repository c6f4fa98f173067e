from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from frames import SCHEMA
from pyspark.sql.types import StructType

from omnigraph import init
from omnigraph.errors import InvalidArgument, NotFound, SnapshotReclaimed
from omnigraph.graph.handle import Graph
from omnigraph.settings.models import MaintenanceSettings, Settings
from omnigraph.spark.source.source import OmnigraphSource
from omnigraph.writes.shape import Edit

pytestmark = [pytest.mark.xdist_group("spark_reads"), pytest.mark.timeout(900)]


def frame(spark: Any, graph: Graph, kind: str = "Person", **options: str) -> Any:
    return spark.read.format("omnigraph").option("type", kind).options(**options).load(graph.uri)


def add(graph: Graph, *names: str, **more: object) -> None:
    graph.apply({"Person": Edit(insert=[{"name": name, **more} for name in names])})


def names(df: Any) -> list[str]:
    return sorted(row.id for row in df.collect())


def read_here(graph: Graph, **options: str) -> list[str]:
    """What Spark's workers would do, in this process: ids."""
    source = OmnigraphSource({"path": graph.uri, **options})
    reader = source.reader(source.schema())
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return sorted(i for batch in batches for i in batch.column("id").to_pylist())


def test_nodes_and_edges_as_typed_frames(spark: Any, people: Graph) -> None:
    add(people, "a", "b", age=3)
    people.apply({"Knows": Edit(insert=[{"from": "a", "to": "b", "since": 7}])})
    assert frame(spark, people).schema.simpleString() == (
        "struct<id:string,name:string,age:int,city:string,born:date,seen:timestamp,"
        "n:decimal(20,0),score:double,ok:boolean>"
    )
    assert names(frame(spark, people)) == ["a", "b"]
    (edge,) = frame(spark, people, "Knows").select("src", "dst", "since").collect()
    assert tuple(edge) == ("a", "b", 7)
    assert frame(spark, people, "Note").count() == 0


def test_branch_commit_and_tag(spark: Any, people: Graph) -> None:
    add(people, "a")
    first = people.snapshot().graph_commit_id
    people.tags.create("one", first)
    people.branches.create("review")
    people.apply({"Person": Edit(insert=[{"name": "r"}])}, "review")
    add(people, "b")
    assert names(frame(spark, people)) == ["a", "b"]
    assert names(frame(spark, people, branch="review")) == ["a", "r"]
    assert names(frame(spark, people, commit=first)) == ["a"]
    assert names(frame(spark, people, tag="one")) == ["a"]


def test_the_commit_is_pinned_by_load(spark: Any, people: Graph) -> None:
    add(people, "a", "b")
    plain = frame(spark, people)
    add(people, "c")
    people.mutate('query q() { delete Person where name = "a" }')
    people.optimize()
    assert names(plain) == ["a", "b"] == names(plain)
    assert names(frame(spark, people)) == ["b", "c"]


def test_a_reader_behind_cleanup_gets_a_typed_error(spark: Any, tmp_path: Path) -> None:
    no_caution = Settings(maintenance=MaintenanceSettings(minimum_age_seconds=0))
    people = init(tmp_path / "g", SCHEMA, settings=no_caution)
    add(people, "a")
    old = frame(spark, people)
    for name in "bcd":
        add(people, name)
    people.mutate('query q() { delete Person where name = "a" }')
    people.optimize()
    people.cleanup(keep=1, older_than="0s", confirm=True)
    with pytest.raises(SnapshotReclaimed):
        old.collect()


def test_columns_are_read_as_asked(spark: Any, people: Graph) -> None:
    add(people, "a", age=4)
    assert frame(spark, people, columns="age, id").collect() == [(4, "a")]
    commit = people.snapshot().graph_commit_id
    picked = spark.read.format("omnigraph").schema("age int, name string").option("commit", commit)
    assert picked.option("type", "Person").load(people.uri).collect() == [(4, "a")]


FILTERS = {
    "age >= 18": ["b", "c"],
    "age <> 18 AND `city` = 'Oslo'": ["c"],
    "city IN ('Oslo', 'It''s')": ["b", "c", "d"],
    "city is null": ["a"],
    "city IS NOT NULL AND ok = true": ["b"],
    "born < '2000-01-02'": ["a", "b"],
    "seen = '2020-01-01T00:00:00.001Z'": ["a"],
    "n = 18446744073709551615": ["a"],
    "n < 18446744073709551615": ["b"],
    "id > 'b'": ["c", "d"],
    "age = -5": ["d"],
}


@pytest.fixture
def four(people: Graph) -> Graph:
    moment = dt.datetime(2020, 1, 1, 0, 0, 0, 1000, tzinfo=dt.UTC)
    people.apply(
        {
            "Person": Edit(
                insert=[
                    {"name": "a", "age": 3, "born": dt.date(1999, 1, 1), "n": 2**64 - 1,
                     "seen": moment},
                    {"name": "b", "age": 18, "city": "Oslo", "ok": True,
                     "born": dt.date(2000, 1, 1), "n": 0},
                    {"name": "c", "age": 40, "city": "Oslo"},
                    {"name": "d", "age": -5, "city": "It's", "ok": False},
                ]
            )
        }
    )  # fmt: skip
    return people


@pytest.mark.parametrize("text", FILTERS)
def test_filters_go_into_lance(four: Graph, text: str) -> None:
    assert read_here(four, type="Person", filter=text) == FILTERS[text]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CITY = 'x'", "is not a column"),
        ("score > 1", "is not a column"),
        ("age >", "expected a value"),
        ("age > 'x'", "is not an I32"),
        ("age > 3 OR ok = true", "expected AND"),
        ("age > 3; drop", "cannot read"),
        ("age > 3.5", "cannot read"),
        ("age LIKE 3", "expected a sign"),
        ("age IN ()", "expected a value"),
    ],
)
def test_rubbish_filters_are_refused(people: Graph, text: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        read_here(people, type="Person", filter=text)


def test_one_frame_scanned_twice_with_other_filters(spark: Any, four: Graph) -> None:
    """Spark 4.3 would give the second scan the first one's pushed filters."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        df = frame(spark, four)
        assert names(df.filter("age = 18")) == ["b"]
        assert names(df) == ["a", "b", "c", "d"]
        left = df.filter("age = 18").selectExpr("id AS l", "1 AS k")
        right = df.filter("age = 40").selectExpr("id AS r", "1 AS k")
        assert [(row.l, row.r) for row in left.join(right, "k").collect()] == [("b", "c")]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_partitions_are_groups_of_fragments(spark: Any, people: Graph) -> None:
    for number in range(6):
        add(people, *(f"p{number}-{i}" for i in range(3)))
    df = frame(spark, people, rows_per_partition="6", columns="id")
    assert df.rdd.getNumPartitions() == 3
    assert df.count() == 18


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"type": "Nobody"}, NotFound, "no type 'Nobody'"),
        ({}, InvalidArgument, "give the type"),
        ({"type": "Person", "brunch": "x"}, InvalidArgument, "did you mean 'branch'"),
        ({"type": "Person", "pushdown": "true"}, InvalidArgument, "no option 'pushdown'"),
        ({"type": "Person", "branch": "x"}, NotFound, "'x'"),
        ({"type": "Person", "commit": "x", "tag": "y"}, InvalidArgument, "give one of"),
        ({"type": "Person", "columns": "id,who"}, InvalidArgument, "no 'who'"),
        ({"type": "Person", "rows_per_partition": "-3"}, InvalidArgument, "positive number"),
    ],
)
def test_bad_options(
    people: Graph, options: dict[str, str], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        read_here(people, **options)


@pytest.mark.parametrize(
    ("schema", "said"),
    [("id string, who int", "no 'who'"), ("age string", "is int"), ("age int not null", "NULL")],
)
def test_a_schema_picks_columns_only(people: Graph, schema: str, said: str) -> None:
    source = OmnigraphSource({"path": people.uri, "type": "Person"})
    source.schema()
    with pytest.raises(InvalidArgument, match=said):
        source.reader(StructType.fromDDL(schema))


def test_a_schema_of_ones_own_needs_a_commit(people: Graph) -> None:
    source = OmnigraphSource({"path": people.uri, "type": "Person"})
    with pytest.raises(InvalidArgument, match="name the state"):
        source.reader(StructType.fromDDL("id string"))


def test_no_graph(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        spark.read.format("omnigraph").option("type", "T").load(str(tmp_path / "nothing"))

"""The format and both streams on a graph in a bucket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from frames import SCHEMA

from omnigraph import init
from omnigraph.errors import KeyConflict
from omnigraph.graph.handle import Graph
from omnigraph.spark import GraphReader, GraphWriter
from omnigraph_testing.invariants import assert_at_rest
from omnigraph_testing.s3_server import BUCKET, S3Server

pytestmark = [pytest.mark.s3, pytest.mark.xdist_group("spark_reads"), pytest.mark.timeout(900)]


@pytest.fixture
def stored(spark: Any, s3: S3Server, request: pytest.FixtureRequest) -> Graph:
    return init(f"s3://{BUCKET}/{request.node.name}", SCHEMA)


def people(spark: Any, *names: str) -> Any:
    return spark.createDataFrame([(name, len(name)) for name in names], "name string, age int")


def test_saves_scans_and_queries(spark: Any, stored: Graph) -> None:
    frame = people(spark, "a", "bb", "ccc").repartition(2)
    writer = frame.write.format("omnigraph").option("type", "Person").mode("append")
    writer.save(stored.uri)
    with pytest.raises(KeyConflict):
        writer.save(stored.uri)
    edges = spark.createDataFrame([("a", "bb")], "`from` string, `to` string")
    GraphWriter(stored.uri).add("Knows", edges).commit()
    reader = GraphReader(spark, stored.uri)
    stored.mutate('query q() { delete Person where name = "a" }')
    rows = reader.frame("Person", ["id", "age"], where="age > 1").collect()
    assert sorted(tuple(row) for row in rows) == [("bb", 2), ("ccc", 3)]
    assert reader.frame("Knows").count() == 1
    text = "query q() { match { $p: Person } return { $p.name, $p.age } }"
    found = stored.query(text, engine="spark").to_pylist()
    assert found == stored.query(text).to_pylist()
    assert len(found) == 2
    assert_at_rest(stored)


def test_streams_in_and_out(spark: Any, stored: Graph, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, name in enumerate(("x", "yy")):
        (tmp_path / "in" / f"{number}.json").write_text(f'{{"name": "{name}", "age": {number}}}')
    arrivals = spark.readStream.schema("name string, age int").option("maxFilesPerTrigger", "1")
    sink = arrivals.json(str(tmp_path / "in")).writeStream.format("omnigraph")
    sink = sink.option("type", "Person").option("checkpointLocation", str(tmp_path / "checkpoint"))
    sink.trigger(availableNow=True).start(stored.uri).awaitTermination()
    assert sorted(stored.read("Person")["id"].to_pylist()) == ["x", "yy"]
    source = spark.readStream.format("omnigraph").option("changes", "true")
    source = source.option("type", "Person").option("start", "baseline").load(stored.uri)
    out = source.writeStream.format("memory").queryName("changes_of_a_bucket")
    query = out.option("checkpointLocation", str(tmp_path / "out")).start()
    query.processAllAvailable()
    stored.mutate('query q() { delete Person where name = "x" }')
    query.processAllAvailable()
    query.stop()
    rows = spark.sql("SELECT op, id FROM changes_of_a_bucket").collect()
    assert sorted(map(tuple, rows)) == [("delete", "x"), ("insert", "x"), ("insert", "yy")]
    assert_at_rest(stored)

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from omnigraph import init
from omnigraph.errors import FeedGap, InvalidArgument
from omnigraph.graph.handle import Graph
from omnigraph.spark.source.source import OmnigraphSource
from omnigraph.writes.shape import Edit

pytestmark = [pytest.mark.xdist_group("spark_reads"), pytest.mark.timeout(900)]


def write(graph: Graph) -> list[str]:
    """Three commits: two inserts and an edge, an update, a delete with its cascade."""
    graph.apply(
        {
            "Person": Edit(insert=[{"name": "a", "n": 2**64 - 1}, {"name": "b"}]),
            "Knows": Edit(insert=[{"from": "a", "to": "b", "since": 1}]),
        }
    )
    graph.apply({"Person": Edit(upsert=[{"name": "b", "age": 5}])})
    graph.mutate('query q() { delete Person where name = "a" }')
    return [c.graph_commit_id for c in graph.commits.list()][::-1][1:]


def drain(spark: Any, graph: Graph, folder: Path, name: str, **options: str) -> list[Any]:
    """Everything up to now, and from where the last call of the same name stopped."""
    source = spark.readStream.format("omnigraph").option("changes", "true").options(**options)
    query = (
        source.load(graph.uri)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / f"{name}-checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / name))
    )
    query.awaitTermination()
    return spark.read.parquet(str(folder / name)).collect()


def test_every_change_once_with_its_images(spark: Any, people: Graph, tmp_path: Path) -> None:
    first, second, third = write(people)
    found = drain(spark, people, tmp_path, "all", start="beginning", max_commits="2")
    assert sorted(
        (r.commit, r.type, r.id[:1], r.op) for r in found if r.type == "Person"
    ) == sorted(
        [
            (first, "Person", "a", "insert"),
            (first, "Person", "b", "insert"),
            (second, "Person", "b", "update"),
            (third, "Person", "a", "delete"),
        ]
    )
    assert [r.op for r in found if r.type == "Knows"] in (
        ["insert", "delete"],
        ["delete", "insert"],
    )
    (update,) = [r for r in found if r.op == "update"]
    assert json.loads(update.before)["age"] is None
    assert json.loads(update.after)["age"] == 5
    people.apply({"Person": Edit(insert=[{"name": "c"}])})
    again = drain(spark, people, tmp_path, "all", start="beginning", max_commits="2")
    assert len(again) == len(found) + 1
    assert len({(r.commit, r.id) for r in again}) == len(again)


def test_one_type_with_typed_images(spark: Any, people: Graph, tmp_path: Path) -> None:
    first, *_ = write(people)
    rows = drain(spark, people, tmp_path, "p", start=f"after:{first}", type="Person")
    assert sorted((r.op, r.id) for r in rows) == [("delete", "a"), ("update", "b")]
    (gone,) = [r for r in rows if r.op == "delete"]
    assert gone.after is None
    assert gone.before.n == Decimal(2**64 - 1)
    edges = drain(spark, people, tmp_path, "k", start="beginning", type="Knows")
    (added,) = [r for r in edges if r.op == "insert"]
    assert (added.after.src, added.after.dst, added.after.since) == ("a", "b", 1)
    assert (added.kind, added.before) == ("edge", None)


def here(graph: Graph, **options: str) -> Any:
    source = OmnigraphSource({"path": graph.uri, "changes": "true", **options})
    return source.streamReader(source.schema())


def test_offsets_are_commits(people: Graph) -> None:
    ids = write(people)
    reader = here(people, start="beginning", max_commits="3")
    start = reader.initialOffset()
    assert start == {"commit": None}
    middle = reader.latestOffset(start, None)
    assert middle == {"commit": ids[1]}
    end = reader.latestOffset(middle, None)
    assert end == {"commit": ids[2]} == reader.latestOffset(end, None)
    assert reader.partitions(end, end) == []
    reader.prepareForTriggerAvailableNow()
    people.apply({"Person": Edit(insert=[{"name": "late"}])})
    assert reader.latestOffset(end, None) == end
    (part,) = reader.partitions(middle, end)
    assert [b.column("op").to_pylist() for b in reader.read(part)] == [["delete", "delete"]]


def test_the_first_batch_of_a_stream_from_the_head_says_which_head(people: Graph) -> None:
    *_, head = write(people)
    for start, rows in (("now", []), ("baseline", [["insert"]])):
        reader = here(people, start=start)
        first = reader.initialOffset()
        end = reader.latestOffset(first, None)
        assert first != end == {"commit": head, "begun": start}
        # Spark asks again when it repeats the batch after a crash, and others have written.
        moved = people.apply({"Person": Edit(upsert=[{"name": "b", "city": start}])}).commit
        again = here(people, start=start)
        assert moved is not None
        assert again.initialOffset()["commit"] == moved.graph_commit_id
        parts = again.partitions(again.initialOffset(), end)
        assert [b.column("op").to_pylist() for p in parts for b in again.read(p)] == rows
        assert again.latestOffset(end, None) == {"commit": moved.graph_commit_id}
        head = moved.graph_commit_id


def follow(spark: Any, graph: Graph, folder: Path, start: str, *names: str) -> list[Any]:
    """A stream that runs while people are inserted, one by one, until it has them all."""
    source = spark.readStream.format("omnigraph").option("changes", "true").option("type", "Person")
    query = (
        source.option("start", start)
        .load(graph.uri)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start(str(folder / "out"))
    )
    try:
        for name in names:
            query.processAllAvailable()
            graph.apply({"Person": Edit(insert=[{"name": name}])})
        query.processAllAvailable()
    finally:
        query.stop()
    return sorted(
        (r.id, r.op, r.after.age) for r in spark.read.parquet(str(folder / "out")).collect()
    )


def test_a_baseline_then_the_changes(spark: Any, people: Graph, tmp_path: Path) -> None:
    people.apply({"Person": Edit(insert=[{"name": "a", "age": 1}, {"name": "b"}])})
    people.apply({"Person": Edit(upsert=[{"name": "b", "age": 2}])})
    expected = [
        ("a", "insert", 1),
        ("b", "insert", 2),
        ("c", "insert", None),
        ("d", "insert", None),
    ]
    assert follow(spark, people, tmp_path, "baseline", "c", "d") == expected
    (tmp_path / "all").mkdir()
    everything = drain(spark, people, tmp_path / "all", "all", start="baseline")
    assert sorted((r.type, r.op, json.loads(r.after)["id"]) for r in everything) == [
        ("Person", "insert", name) for name in "abcd"
    ]
    assert len(drain(spark, people, tmp_path / "all", "all", start="baseline")) == 4


def test_a_stream_from_now_sees_what_comes(spark: Any, people: Graph, tmp_path: Path) -> None:
    people.apply({"Person": Edit(insert=[{"name": "a"}])})
    assert follow(spark, people, tmp_path, "now", "b", "c") == [
        ("b", "insert", None),
        ("c", "insert", None),
    ]
    # It stopped; what came meanwhile is not lost.
    people.apply({"Person": Edit(insert=[{"name": "d"}])})
    assert [name for name, *_ in follow(spark, people, tmp_path, "now", "e")] == [
        "b",
        "c",
        "d",
        "e",
    ]


def test_bad_starts(people: Graph) -> None:
    for start, kind in (("yesterday", InvalidArgument), ("after:nothing", FeedGap)):
        with pytest.raises(kind):
            here(people, start=start).initialOffset()
    with pytest.raises(InvalidArgument, match="changes, not rows"):
        OmnigraphSource({"path": people.uri, "type": "Person"}).streamReader(None)
    with pytest.raises(InvalidArgument, match="no option 'starting'"):
        here(people, starting="now")


def test_a_stream_behind_a_new_branch_of_its_name_says_so(
    spark: Any, people: Graph, tmp_path: Path
) -> None:
    people.branches.create("work")
    people.apply({"Person": Edit(insert=[{"name": "a"}])}, "work")
    assert len(drain(spark, people, tmp_path, "w", branch="work", start="beginning")) == 1
    people.branches.delete("work")
    people.branches.create("work")
    people.apply({"Person": Edit(insert=[{"name": "b"}])}, "work")
    with pytest.raises(FeedGap) as raised:
        drain(spark, people, tmp_path, "w", branch="work", start="beginning")
    assert isinstance(raised.value.__cause__, StreamingQueryException)


def test_an_empty_graph_streams_nothing(spark: Any, tmp_path: Path) -> None:
    graph = init(tmp_path / "g", "node T { name: String @key }")
    assert drain(spark, graph, tmp_path, "none", start="beginning") == []

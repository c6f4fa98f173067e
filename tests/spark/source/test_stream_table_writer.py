from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from omnigraph.errors import InvalidArgument, ValidationFailed
from omnigraph.graph.handle import Graph
from omnigraph.spark.source.source_options import sink_request
from omnigraph_testing.invariants import assert_at_rest

pytestmark = [pytest.mark.xdist_group("spark_reads"), pytest.mark.timeout(900)]


def put(folder: Path, number: int, *names: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    text = "\n".join(f'{{"name": "{name}", "age": {number}}}' for name in names)
    (folder / "in" / f"{number}.json").write_text(text)


def drain(spark: Any, graph: Graph, folder: Path, **options: str) -> None:
    stream = spark.readStream.schema("name string, age int").option("maxFilesPerTrigger", "1")
    query = (
        stream.json(str(folder / "in"))
        .writeStream.format("omnigraph")
        .option("type", "Person")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .options(**options)
        .trigger(availableNow=True)
        .start(graph.uri)
    )
    query.awaitTermination()


def ages(graph: Graph) -> dict[str, int]:
    return {row["name"]: row["age"] for row in graph.read("Person").to_pylist()}


def test_a_batch_is_a_commit_and_replays_change_nothing(
    spark: Any, people: Graph, tmp_path: Path
) -> None:
    put(tmp_path, 1, "a", "b")
    put(tmp_path, 2, "c")
    drain(spark, people, tmp_path)
    assert ages(people) == {"a": 1, "b": 1, "c": 2}
    messages = [c.message for c in people.commits.list(limit=2)]
    assert all(m.startswith("stream ") for m in messages)
    assert [m[-7:] for m in messages] == ["batch 1", "batch 0"]
    # As after a crash between our commit and Spark's note of it: the batch comes again.
    (tmp_path / "checkpoint" / "commits" / "1").unlink()
    (tmp_path / "checkpoint" / "commits" / ".1.crc").unlink(missing_ok=True)
    before = people.snapshot().graph_commit_id
    drain(spark, people, tmp_path)
    assert people.snapshot().graph_commit_id == before
    put(tmp_path, 3, "d", "a")
    drain(spark, people, tmp_path, write_mode="merge")
    assert ages(people) == {"a": 3, "b": 1, "c": 2, "d": 3}
    assert_at_rest(people)


def test_a_stream_of_patches(spark: Any, people: Graph, tmp_path: Path) -> None:
    """A stream of names leaves ages alone; a replayed batch changes nothing."""
    people.load([{"name": "a", "age": 1}], type="Person")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"name": "a"}\n{"name": "b"}')
    stream = spark.readStream.schema("name string").json(str(tmp_path / "in"))
    for _ in range(2):
        query = (
            stream.writeStream.format("omnigraph")
            .option("type", "Person")
            .option("write_mode", "patch")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(people.uri)
        )
        query.awaitTermination()
        assert ages(people) == {"a": 1, "b": None}
        head = people.snapshot().graph_commit_id
        (tmp_path / "in" / "2.json").write_text('{"name": "b"}')
    assert people.snapshot().graph_commit_id == head
    assert_at_rest(people)


def test_a_bad_batch_stops_the_stream_and_leaves_nothing(
    spark: Any, people: Graph, tmp_path: Path
) -> None:
    put(tmp_path, 1, "a", "a")
    before = people.snapshot().graph_commit_id
    with pytest.raises(ValidationFailed) as raised:
        drain(spark, people, tmp_path)
    assert isinstance(raised.value.__cause__, StreamingQueryException)
    assert people.snapshot().graph_commit_id == before
    # The batch is still the stream's next one: put right, it goes in.
    drain(spark, people, tmp_path, write_mode="merge")
    assert ages(people) == {"a": 1}


def test_bad_rows_of_a_batch_go_to_a_folder_and_the_stream_goes_on(
    spark: Any, people: Graph, tmp_path: Path
) -> None:
    letters = tmp_path / "letters"
    put(tmp_path, 1, "a", "a", "b")
    put(tmp_path, 2, "c")
    drain(spark, people, tmp_path, dead_letter=str(letters))
    assert ages(people) == {"a": 1, "b": 1, "c": 2}
    (file,) = letters.iterdir()
    assert file.name.endswith("-000000.ndjson")
    (row,) = map(json.loads, file.read_text().splitlines())
    assert row["row"] == {"type": "Person", "data": {"name": "a", "age": 1}}
    assert (row["rule"], row["type"]) == ("duplicate_id", "Person")
    put(tmp_path, 3, "d", "a", "b")
    with pytest.raises(ValidationFailed, match="more than max_errors=1 allows"):
        drain(spark, people, tmp_path, dead_letter=str(letters), max_errors="1")
    assert len(list(letters.iterdir())) == 2
    drain(spark, people, tmp_path, dead_letter=str(letters), max_errors="2")
    assert ages(people) == {"a": 1, "b": 1, "c": 2, "d": 3}
    assert_at_rest(people)


def test_sink_options() -> None:
    options = {"path": "g", "type": "T", "checkpointlocation": "c"}
    assert sink_request(options, overwrite=False).mode == "append"
    assert sink_request(options, overwrite=True).mode == "overwrite"
    with pytest.raises(InvalidArgument, match="no option 'idempotency_key'"):
        sink_request({**options, "idempotency_key": "k"}, overwrite=False)
    with pytest.raises(InvalidArgument, match="contradicts write_mode"):
        sink_request({**options, "write_mode": "merge"}, overwrite=True)
    with pytest.raises(InvalidArgument, match="no option 'rejects'"):
        sink_request({**options, "rejects": "f"}, overwrite=False)
    letters = sink_request({**options, "dead_letter": "d", "max_errors": "7"}, overwrite=False)
    assert (letters.on_error, letters.max_errors, letters.dead_letter) == ("skip", 7, "d")
    with pytest.raises(InvalidArgument, match="'many' is not a number"):
        sink_request({**options, "dead_letter": "d", "max_errors": "many"}, overwrite=False)
    with pytest.raises(InvalidArgument, match="give dead_letter"):
        sink_request({**options, "max_errors": "7"}, overwrite=False)

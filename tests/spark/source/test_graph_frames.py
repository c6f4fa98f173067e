from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import InvalidArgument, PreconditionFailed, ValidationFailed
from omnigraph.graph.handle import Graph
from omnigraph.load.options import LoadReceipt
from omnigraph.settings.models import HistorySettings, Settings
from omnigraph.spark import GraphReader, GraphWriter
from omnigraph.writes.shape import Edit
from omnigraph_testing.invariants import assert_at_rest

pytestmark = [pytest.mark.xdist_group("spark_reads"), pytest.mark.timeout(900)]


def persons(spark: Any, *names: str) -> Any:
    return spark.createDataFrame([(name,) for name in names], "name string")


def friends(spark: Any, *pairs: tuple[str, str]) -> Any:
    return spark.createDataFrame(list(pairs), "`from` string, `to` string")


def test_nodes_and_edges_in_one_commit(spark: Any, people: Graph) -> None:
    writer = GraphWriter(people.uri, message="both", actor="eve")
    receipt = (
        writer.add("Knows", friends(spark, ("a", "b"))).add("Person", persons(spark, "a", "b"))
    ).commit()
    assert receipt.total_entities == 3
    assert len(people.commits.list()) == 2
    assert people.commits.list(limit=1)[0].actor_id == "eve"
    bad = GraphWriter(people.uri, mode="merge").add("Person", persons(spark, "c"))
    bad.add("Knows", friends(spark, ("c", "nobody")))
    with pytest.raises(ValidationFailed, match="<Knows>:1"):
        bad.commit()
    assert people.read("Person").num_rows == 2
    empty = GraphWriter(people.uri, mode="overwrite").add("Person", persons(spark))
    assert empty.commit().commit is not None
    assert people.read("Person").num_rows == people.read("Knows").num_rows == 0
    assert_at_rest(people)


def test_a_branch_that_is_not_there_yet(spark: Any, people: Graph) -> None:
    writer = GraphWriter(people.uri, "review", from_branch="main")
    assert writer.add("Person", persons(spark, "a")).commit().branch_created
    assert (people.read("Person").num_rows, people.read("Person", "review").num_rows) == (0, 1)


def test_misuse(spark: Any, people: Graph) -> None:
    writer = GraphWriter(people.uri)
    with pytest.raises(InvalidArgument, match="nothing to write"):
        writer.commit()
    with pytest.raises(InvalidArgument, match="twice"):
        writer.add("Person", persons(spark)).add("Person", persons(spark))


def test_all_frames_of_a_reader_are_of_one_commit(spark: Any, people: Graph) -> None:
    people.apply({"Person": Edit(insert=[{"name": "a", "age": 3}, {"name": "b"}])})
    reader = GraphReader(spark, people.uri)
    people.apply(
        {
            "Person": Edit(insert=[{"name": "c"}]),
            "Knows": Edit(insert=[{"from": "a", "to": "c"}]),
        }
    )
    assert reader.frame("Knows").count() == 0
    assert reader.frame("Person", ["id", "age"], "age = 3").collect() == [("a", 3)]


def test_a_reader_of_a_branch_and_of_the_past(spark: Any, people: Graph) -> None:
    people.apply({"Person": Edit(insert=[{"name": "a"}])})
    people.tags.create("v1")
    people.branches.create("side")
    people.apply({"Person": Edit(insert=[{"name": "b"}])}, "side")
    people.apply({"Person": Edit(insert=[{"name": "c"}])})

    def names(reader: GraphReader) -> list[str]:
        return sorted(row.id for row in reader.frame("Person", ["id"]).collect())

    assert names(GraphReader(spark, people.uri, "side")) == ["a", "b"]
    assert names(GraphReader(spark, people.uri, branch="side", at="v1")) == ["a"]
    assert names(GraphReader(spark, people.uri)) == ["a", "c"]


def test_a_write_with_terms(spark: Any, people: Graph) -> None:
    seen = people.snapshot().graph_commit_id

    def write(name: str, **terms: Any) -> LoadReceipt:
        return GraphWriter(people.uri, **terms).add("Person", persons(spark, name)).commit()

    first = write("a", if_commit=seen, idempotency_key="k")
    assert not first.repeated
    again = write("b", idempotency_key="k")
    assert again.repeated
    assert again.commit == first.commit
    with pytest.raises(PreconditionFailed):
        write("c", if_commit=seen)
    assert people.read("Person")["id"].to_pylist() == ["a"]
    lists = Path(people.uri, "__history")
    assert not list(lists.glob("*.arrow"))
    write("d", settings=Settings(history=HistorySettings(inline_ids=0)))
    assert len(list(lists.glob("*.arrow"))) == 1


def test_a_batch_is_committed_once(spark: Any, people: Graph) -> None:
    def batch(number: int, *names: str) -> Any:
        writer = GraphWriter(people.uri).add("Person", persons(spark, *names))
        return writer.commit_batch("orders", number)

    first = batch(3, "a")
    assert not first.repeated
    again = batch(3, "b")
    assert again.repeated
    assert again.commit.graph_commit_id == first.commit.graph_commit_id
    assert batch(2, "c").repeated
    assert not batch(4, "d").repeated
    assert sorted(people.read("Person")["id"].to_pylist()) == ["a", "d"]
    assert [c.message for c in people.commits.list(limit=2)] == [
        "stream orders, batch 4",
        "stream orders, batch 3",
    ]


def test_bad_rows_of_frames(spark: Any, people: Graph, tmp_path: Path) -> None:
    bad, letters = tmp_path / "bad.ndjson", tmp_path / "letters"
    writer = GraphWriter(people.uri, on_error="skip", rejects=bad, max_errors=5)
    writer.add("Person", persons(spark, "a", "b"))
    receipt = writer.add("Knows", friends(spark, ("a", "b"), ("a", "zoe")).coalesce(1)).commit()
    assert (receipt.rejected, receipt.total_entities) == (1, 3)
    (listed,) = map(json.loads, bad.read_text().splitlines())
    assert (listed["file"], listed["line"], listed["rule"]) == ("<Knows>", 2, "endpoint")
    assert listed["row"]["to"] == "zoe"
    batch = GraphWriter(people.uri).add("Person", persons(spark, "b", "c"))
    assert batch.commit_batch("orders", 0, dead_letter=letters).rejected == 1
    assert [file.name for file in letters.iterdir()] == ["orders-000000.ndjson"]
    again = GraphWriter(people.uri).add("Person", persons(spark, "b", "c"))
    assert again.commit_batch("orders", 0, dead_letter=letters).repeated
    assert sorted(people.read("Person")["id"].to_pylist()) == ["a", "b", "c"]
    assert_at_rest(people)

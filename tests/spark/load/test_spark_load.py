from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph import init
from omnigraph.errors import InvalidArgument, KeyConflict, SparkFailed, ValidationFailed
from omnigraph.graph.handle import Graph
from omnigraph.settings.models import EmbeddingSettings, Settings
from omnigraph.spark.load import spark_load
from omnigraph.spark.load.load_tasks import run_tasks
from omnigraph_testing.invariants import assert_at_rest
from omnigraph_testing.load_engines import masked, new_graph, outcome
from omnigraph_testing.spark_clusters import TROUBLES, in_trouble_once

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]


def person(name: str, **more: object) -> str:
    return json.dumps({"type": "Person", "data": {"name": name, **more}})


def knows(source: str, target: str, **more: object) -> str:
    return json.dumps({"edge": "Knows", "from": source, "to": target, "data": more})


PEOPLE = [person(f"p{i}", age=i, photo="base64:aGVsbG8=") for i in range(20)]
FRIENDS = [knows(f"p{i}", f"p{(i * 7) % 20}") for i in range(20)]

CASES: dict[str, tuple[list[str], list[str], str]] = {
    "append": ([], [*PEOPLE, "", *FRIENDS], "append"),
    "append to a full graph": ([*PEOPLE], FRIENDS, "append"),
    "ids that exist": (PEOPLE, [person("new"), *PEOPLE[3:6]], "append"),
    "an id twice": ([], [*PEOPLE, "// again", PEOPLE[2], PEOPLE[5]], "append"),
    "merge": (PEOPLE, [person("p3", age=99), PEOPLE[4], person("p21"), person("p3")], "merge"),
    "merge of the same": (PEOPLE, PEOPLE, "merge"),
    "overwrite cascades": ([*PEOPLE, *FRIENDS], PEOPLE[:10], "overwrite"),
    "endpoints": ([], [*PEOPLE, knows("p1", "nobody"), *FRIENDS, knows("x", "y")], "append"),
    "unique": ([person("z", mail="m0")], [person(f"q{i}", mail=f"m{i % 7}") for i in range(9)],
               "append"),
    "cardinality": (PEOPLE, [*FRIENDS, *FRIENDS, FRIENDS[4], FRIENDS[4]], "append"),
    "rows": ([], [*PEOPLE, person("old", age=151), person("", age="x"), "{", *PEOPLE[:2],
                  '{"type":"Nothing","data":{}}', person("r", wrong=1)], "append"),
    "nothing": ([], ["", "// only a remark"], "append"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_both_engines_do_and_say_the_same(tmp_path: Path, name: str) -> None:
    first, second, mode = CASES[name]
    data = tmp_path / "data.ndjson"
    results = []
    for engine in ("local", "spark"):
        graph = new_graph(tmp_path / engine)
        if first:
            data.write_text("\n".join(first))
            graph.load(data, engine="local")
        data.write_text("\n".join(second))
        results.append(outcome(graph, engine, data, mode))
    assert results[1] == results[0]


def test_of_many_broken_rows_both_engines_name_the_same_first_ones(tmp_path: Path) -> None:
    data = tmp_path / "data.ndjson"
    rows = [person(f"p{i}", age=i * 7 % 300 - 50) for i in range(60)]
    data.write_text("\n".join([*rows, "rubbish", *rows[:5], person("", age=-1), *rows]))
    results = [outcome(new_graph(tmp_path / e), e, data, "append") for e in ("local", "spark")]
    assert results[1] == results[0]
    found = [v["line"] for v in results[0]["violations"]]
    assert found == sorted(found)


def test_missing_vectors_are_made_by_the_workers(tmp_path: Path) -> None:
    schema = 'node Doc { name: String @key  text: String?  vec: Vector(8)? @embed("text") }'
    mock = Settings(embedding=EmbeddingSettings(provider="mock", model="m", width=8))
    data = tmp_path / "data.ndjson"
    rows = [{"name": "a", "text": "x"}, {"name": "b", "vec": [1.0] * 8}, {"name": "c"}]
    data.write_text("\n".join(json.dumps({"type": "Doc", "data": row}) for row in rows))
    results = []
    for engine in ("local", "spark"):
        graph = init(tmp_path / engine, schema, settings=mock)
        graph.load(data, engine=engine)
        results.append(masked(graph))
    assert results[1] == results[0]
    assert "0.0" in results[0][0]


lines = st.lists(
    st.builds(person, st.sampled_from("abcdef"), age=st.integers(-1, 160) | st.none())
    | st.builds(knows, st.sampled_from("abcdefg"), st.sampled_from("abcdefg"), id=st.text("xy"))
    | st.sampled_from(["", "//", "{}", "rubbish"]),
    max_size=12,
)


@given(lines, lines, st.sampled_from(["append", "merge", "overwrite"]))
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_both_engines_agree_on_any_input(
    tmp_path_factory: pytest.TempPathFactory, first: list[str], second: list[str], mode: str
) -> None:
    folder = tmp_path_factory.mktemp("any")
    data = folder / "data.ndjson"
    results: list[Any] = []
    for engine in ("local", "spark"):
        graph = new_graph(folder / engine)
        found = []
        for part, how in ((first, "append"), (second, mode)):
            data.write_text("\n".join(part))
            found.append(outcome(graph, engine, data, how))
        results.append(found)
    assert results[1] == results[0]


def test_parquet_csv_frames_and_tables(tmp_path: Path, spark: Any) -> None:
    names = [f"p{i}" for i in range(100)]
    people = pa.table({"name": names, "age": pa.array(range(100), pa.int64())})
    pq.write_table(people, tmp_path / "Person.parquet", row_group_size=40)
    ends = pa.table({"from": names, "to": names[::-1]})
    pc.write_csv(ends, tmp_path / "Knows.csv")
    local, graph, framed = (new_graph(tmp_path / n) for n in ("local", "spark", "framed"))
    files = [tmp_path / "Person.parquet", tmp_path / "Knows.csv"]
    local.load(files, engine="local")
    assert graph.load(files, engine="spark").total_entities == 200
    assert masked(graph) == masked(local)
    framed.load(people, type="Person", engine="spark")
    frame = spark.read.option("header", True).csv(str(tmp_path / "Knows.csv"))
    receipt = framed.load(frame, type="Knows")
    assert (receipt.engine, receipt.engine_reason) == ("spark", "the input is a Spark DataFrame")
    assert masked(framed) == masked(local)
    with pytest.raises(InvalidArgument, match="needs type="):
        framed.load(frame)
    with pytest.raises(InvalidArgument, match="loaded by engine 'spark'"):
        framed.load(frame, type="Knows", engine="local")
    with pytest.raises(InvalidArgument, match="workers cannot share a stream"):
        framed.load(io.BytesIO(b"{}"), engine="spark")
    bad = frame.selectExpr("`from`", "concat(`to`, 'x') AS `to`")
    with pytest.raises(ValidationFailed, match=r"<DataFrame>:1: Knows"):
        framed.load(bad, type="Knows")


def test_a_branch_gets_the_rows_and_main_does_not(tmp_path: Path) -> None:
    graph = new_graph(tmp_path / "g")
    data = tmp_path / "data.ndjson"
    data.write_text("\n".join(PEOPLE))
    receipt = graph.load(data, branch="review", from_branch="main", engine="spark")
    assert receipt.branch_created
    assert graph.read("Person", "review").num_rows == 20
    assert graph.read("Person").num_rows == 0
    with pytest.raises(KeyConflict):
        graph.load(data, branch="review", engine="spark")
    data.write_text(knows("a", "b"))
    with pytest.raises(ValidationFailed):
        graph.load(data, branch="other", from_branch="main", engine="spark")
    assert [b.name for b in graph.branches.list()] == ["main", "review"]


@pytest.mark.parametrize("how", ["fail", "worker"])
def test_a_task_that_dies_after_writing_is_tried_again_and_adopted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    marker = str(tmp_path / "died")
    troubled = in_trouble_once(run_tasks, marker, TROUBLES[how])
    monkeypatch.setattr(spark_load, "run_tasks", troubled)
    graph = new_graph(tmp_path / "g")
    data = tmp_path / "data.ndjson"
    data.write_text("\n".join([*PEOPLE, *FRIENDS]))
    assert graph.load(data, engine="spark").total_entities == 40
    assert Path(marker).exists()
    assert sorted(graph.read("Person")["id"].to_pylist()) == sorted(f"p{i}" for i in range(20))
    assert graph.read("Knows").num_rows == 20
    assert_at_rest(graph)


def test_a_load_that_keeps_failing_changes_nothing_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(plan: Any, pieces: Any) -> Any:
        def run(batches: Any) -> Any:
            raise RuntimeError("no such luck")
            yield from batches

        return run

    graph = new_graph(tmp_path / "g")
    data = tmp_path / "data.ndjson"
    data.write_text("\n".join(PEOPLE))
    monkeypatch.setattr(spark_load, "run_tasks", broken)
    with pytest.raises(SparkFailed, match="no such luck"):
        graph.load(data, engine="spark")
    assert graph.read("Person").num_rows == 0
    assert_at_rest(graph)


def test_an_interrupt_cancels_the_job_and_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: Any
) -> None:
    def slow(plan: Any, pieces: Any) -> Any:
        def run(batches: Any) -> Any:
            import time

            for batch in batches:
                time.sleep(600)
                yield batch

        return run

    def interrupt(_bytes: int, _rows: int) -> None:
        raise KeyboardInterrupt

    graph = new_graph(tmp_path / "g")
    data = tmp_path / "data.ndjson"
    data.write_text("\n".join(PEOPLE))
    monkeypatch.setattr(spark_load, "run_tasks", slow)
    with pytest.raises(KeyboardInterrupt):
        graph.load(data, engine="spark", progress=interrupt)
    assert list(spark.sparkContext.statusTracker().getActiveJobsIds()) == []
    assert graph.read("Person").num_rows == 0
    assert_at_rest(graph)


def test_commits_of_others_are_checked_against_not_started_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = new_graph(tmp_path / "g")
    runs = []
    take = spark_load.take_results

    def meanwhile(*written: Any) -> None:
        take(*written)
        runs.append(1)
        Graph.apply(graph, {"Person": {"insert": [{"name": other}]}})

    monkeypatch.setattr(spark_load, "take_results", meanwhile)
    data = tmp_path / "data.ndjson"
    data.write_text("\n".join(PEOPLE))
    other = "somebody"
    graph.load(data, engine="spark")
    assert runs == [1]
    assert graph.read("Person").num_rows == 21
    data.write_text("\n".join([person("q1"), person("q2")]))
    other = "q2"
    with pytest.raises(KeyConflict, match="q2"):
        graph.load(data, engine="spark")
    assert graph.read("Person").num_rows == 22

"""Queries with `engine="spark"`: sessions, limits, snapshots, errors, types."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from omnigraph.cli.main import app
from omnigraph.errors import EngineCannot, InvalidArgument, OmnigraphError, ResourceLimit
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.writes.shape import Edit

pytestmark = [pytest.mark.xdist_group("spark_reads"), pytest.mark.timeout(900)]

SCHEMA = """
node Thing {
  name: String @key
  i: I32?  l: I64?  u: U32?  w: U64?  f: F32?  d: F64?  ok: Bool?
  day: Date?  at: DateTime?  state: enum(on, off)?  tags: [String]?  sizes: [U64]?
  vec: Vector(2)?
}
edge Next: Thing -> Thing { wEight: F64?  weight: F64? }
"""
EXTREMES: dict[str, Any] = {
    "name": "largest",
    "i": 2**31 - 1,
    "l": 2**63 - 1,
    "u": 2**32 - 1,
    "w": 2**64 - 1,
    "f": 3.4028234663852886e38,
    "d": 5e-324,
    "ok": True,
    "day": dt.date(9999, 12, 31),
    "at": dt.datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=dt.UTC),
    "state": "on",
    "tags": ["", 'O\'Brien \\ "x" 😀'],
    "sizes": [0, 2**64 - 1],
    "vec": [0.1, -0.0],
}
LEAST = {
    **EXTREMES,
    "name": "least",
    "i": -(2**31),
    "l": -(2**63),
    "u": 0,
    "w": 0,
    "day": dt.date(1, 1, 1),
    "at": dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    "tags": [],
}
SPECIAL = ("largest", "least", "nothing")
NAMES = [f"t{n:04}" for n in range(1500)]
ALL = """query q() {
  match { $a: Thing optional { $a $n:next $b } }
  return { $a, $n, $b.name, $a.vec, $a.w, $a.at, $a.sizes }
}"""
# A condition on all three at once: billions of combinations, none of them spared.
PRODUCT = """query q() {
  match { $a: Thing $b: Thing $c: Thing ($a.i < $b.l or $b.i < $c.l or $c.i < $a.l) }
  return { count(*) as n }
}"""


@pytest.fixture(scope="module")
def things(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Graph:
    graph = init(tmp_path_factory.mktemp("things") / "g", SCHEMA)
    edge = {"from": "largest", "to": "least", "wEight": 1.5, "weight": 0.5}
    graph.apply({"Thing": Edit(insert=[EXTREMES, LEAST, {"name": "nothing"}])})
    graph.apply({"Thing": Edit(insert=[{"name": n, "i": 1, "l": 0} for n in NAMES])})
    graph.apply({"Next": Edit(insert=[edge, {"from": "t0001", "to": "t0001"}])})
    return graph


def test_types_survive_in_one_task(things: Graph) -> None:
    local, on_spark = things.query(ALL), things.query(ALL, engine="spark")
    assert on_spark.to_arrow().equals(local.to_arrow())
    assert on_spark.graph_commit_id == local.graph_commit_id


@pytest.mark.usefixtures("many_tasks")
def test_types_survive_in_many_tasks_and_batches(things: Graph) -> None:
    local, on_spark = things.query(ALL).to_arrow(), things.query(ALL, engine="spark")
    assert on_spark.row_count == local.num_rows
    batches = list(on_spark.batches(100))
    assert [b.num_rows for b in batches[:-1]] == [100] * (len(batches) - 1)
    assert on_spark.to_arrow().combine_chunks().equals(local.combine_chunks())


def test_an_answer_of_no_rows_has_its_columns(things: Graph) -> None:
    text = "query q() { match { $a: Thing $a.i < 0 $a.i > 0 } return { $a.name, $a.w } }"
    found = things.query(text, engine="spark")
    assert (found.columns, found.row_count, found.to_pylist()) == (["a.name", "a.w"], 0, [])
    assert found.to_arrow().schema == things.query(text).to_arrow().schema


def test_the_session_of_the_caller_is_left_as_it_is(things: Graph, spark: Any) -> None:
    before = {name: spark.conf.get(name) for name in ("spark.sql.ansi.enabled",)}
    spark.conf.set("spark.sql.ansi.enabled", "false")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        text = "query q() { match { $a: Thing $a.i > 1 } return { $a.l + $a.i as more } }"
        with pytest.raises(InvalidArgument):
            things.query(text, engine="spark").to_arrow()
        hours = 'query q() { match { $a: Thing { name: "largest" } } return { hour($a.at) as h } }'
        assert things.query(hours, engine="spark").to_pylist() == [{"h": 23}]
        assert spark.conf.get("spark.sql.ansi.enabled") == "false"
        active = spark.getActiveSession()
        assert active.conf.get("spark.sql.session.timeZone") == "America/New_York"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        for name, value in before.items():
            spark.conf.set(name, value)


def test_a_deadline_ends_the_jobs(things: Graph) -> None:
    with pytest.raises(ResourceLimit, match="time"):
        things.query(PRODUCT, engine="spark", timeout=0.7).to_arrow()
    assert things.query("query q() { match { $a: Thing } return { count($a) as n } }",
                        engine="spark").to_pylist() == [{"n": len(NAMES) + 3}]  # fmt: skip


def test_cancel_ends_the_jobs(things: Graph) -> None:
    cancel = threading.Event()
    threading.Timer(1.0, cancel.set).start()
    with pytest.raises(ResourceLimit, match="cancelled"):
        things.query(PRODUCT, engine="spark", cancel=cancel).to_arrow()


@pytest.mark.usefixtures("many_tasks")
def test_writers_and_optimize_do_not_disturb_a_query(spark: Any, tmp_path: Path) -> None:
    graph = init(tmp_path / "g", "node P { name: String @key  n: I32 }\nedge K: P -> P")
    people = [{"name": f"p{i}", "n": 0} for i in range(50)]
    graph.apply({"P": Edit(insert=people)})
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            graph.apply({"P": Edit(upsert=[{**p, "n": number} for p in people])})
            graph.apply({"K": Edit(insert=[{"from": "p1", "to": f"p{number % 50}"}])})
            if number % 3 == 0:
                graph.optimize()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        text = """query q() {
          match { $p: P optional { $p k $q } }
          return { $p.n, count($q) as friends, count(*) as rows }
        }"""
        for _ in range(3):
            found = graph.query(text, engine="spark")
            assert len({row["p.n"] for row in found.to_pylist()}) == 1
            again = graph.query(text, at=found.graph_commit_id)
            assert found.to_pylist() == again.to_pylist()
    finally:
        stop.set()
        writer.join()


@pytest.mark.usefixtures("many_tasks")
def test_what_an_executor_cannot_read_is_a_typed_error(spark: Any, tmp_path: Path) -> None:
    graph = init(tmp_path / "g", "node P { name: String @key }")
    graph.apply({"P": Edit(insert=[{"name": "a"}])})
    (table,) = (tmp_path / "g" / "nodes").iterdir()
    shutil.rmtree(table / "data")
    with pytest.raises(OmnigraphError) as caught:
        len(graph.query("query q() { match { $p: P } return { $p.name } }", engine="spark"))
    assert caught.value.code in ("snapshot_reclaimed", "storage_failure")


def test_what_spark_does_not_have_is_told_before_a_session_starts(things: Graph) -> None:
    text = """query q() {
      match { $a: Thing } return { $a.name } order { nearest($a.vec, [1, 0]) } limit 2
    }"""
    with pytest.raises(EngineCannot, match=r"nearest\(\).*use engine='local'") as caught:
        things.query(text, engine="spark")
    assert (caught.value.engine, caught.value.construct) == ("spark", "nearest()")


def test_other_engines_are_refused(graph: Graph) -> None:
    with pytest.raises(InvalidArgument, match="known engines: local, spark"):
        graph.query("query q() { match { $a: Thing } return { $a } }", engine="flink")


def test_branches_and_the_past(spark: Any, tmp_path: Path) -> None:
    graph = init(tmp_path / "g", "node P { name: String @key }")
    first = graph.apply({"P": Edit(insert=[{"name": "a"}])}).commit
    graph.branches.create("b")
    graph.apply({"P": Edit(insert=[{"name": "c"}])}, "b")
    graph.apply({"P": Edit(insert=[{"name": "d"}])})
    text = "query q() { match { $p: P } return { $p.name } }"

    def names(**where: Any) -> list[str]:
        return [row["p.name"] for row in graph.query(text, engine="spark", **where).to_pylist()]

    assert first is not None
    assert names() == ["a", "d"]
    assert names(branch="b") == ["a", "c"]
    assert names(at=first.graph_commit_id) == ["a"]


def test_the_command_takes_the_engine(things: Graph) -> None:
    text = "query q() { match { $a: Thing } return { count($a) as n } }"
    arguments = ["query", "-e", text, "--store", things.uri, "--json", "--engine", "spark"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"] == [{"n": len(NAMES) + 3}]


def test_to_spark_is_the_frame_of_the_query(things: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """No row passes through this process, and the types are those of a local result on Spark."""

    def refuse(*_: Any) -> None:
        raise AssertionError("rows were brought to the driver")

    with monkeypatch.context() as patch:
        patch.setattr("omnigraph.spark.query.executor.answer_at_once", refuse)
        patch.setattr("omnigraph.spark.query.executor.answer_in_batches", refuse)
        result = things.query(ALL, engine="spark")
        assert repr(result).startswith(f"q at {result.graph_commit_id}: not run yet\n")
        frame = result.to_spark()
        assert frame.columns == result.columns
        on_spark = frame.toArrow()  # `collect` cannot hold the year 1
    local = things.query(ALL).to_spark()
    assert simple(frame.schema) == simple(local.schema)
    assert on_spark.equals(local.toArrow())
    assert frame.where("`a.w` > 0").count() == 1


@pytest.mark.usefixtures("many_tasks")
def test_to_spark_of_many_tasks_keeps_the_order(things: Graph) -> None:
    text = "query q() { match { $a: Thing } return { $a.name as name } order { $a.name desc } }"
    frame = things.query(text, engine="spark").to_spark()
    assert [row.name for row in frame.collect()] == sorted([*NAMES, *SPECIAL], reverse=True)


def test_to_spark_of_no_rows_and_of_null(things: Graph) -> None:
    text = "query q() { match { $a: Thing $a.i < 0 $a.i > 0 } return { $a.tags, null as nothing } }"
    for engine in ("local", "spark"):
        frame = things.query(text, engine=engine).to_spark()
        assert (frame.columns, frame.count()) == (["a.tags", "nothing"], 0)


def simple(schema: Any) -> str:
    return str(schema.simpleString())

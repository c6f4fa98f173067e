"""`merge(engine="spark")`: executors merge rows and write them; the result is the local one."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omnigraph import init
from omnigraph.errors import InvalidArgument, OmnigraphError
from omnigraph.graph.handle import Graph
from omnigraph.manifest.layout import RECOVERY
from omnigraph.settings.models import MaintenanceSettings, Settings, WriteSettings
from omnigraph.spark.merge import spark_merge
from omnigraph.spark.merge.merge_tasks import merge_tasks
from omnigraph_testing.graph_helpers import exported, with_parts
from omnigraph_testing.invariants import assert_at_rest
from omnigraph_testing.spark_clusters import fail, in_trouble_once

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("spark"),
    pytest.mark.timeout(900),
]
SCHEMA = """
node Person {
  name: String @key
  age: I32?
  size: U64?
  born: Date?
  tags: [String]?
  mail: String? @unique
  photo: Blob?
  vec: Vector(3)?
  mood: enum(glad, sad)?
  @range(age, 0..150)
}
node City { name: String @key }
edge Knows: Person -> Person @card(0..3) { since: DateTime? }
edge LivesIn: Person -> City
"""
MERGES = Settings(
    write=WriteSettings(lease_seconds=1.0),
    maintenance=MaintenanceSettings(automatic=False, minimum_age_seconds=0),
)


def person(n: int, **more: Any) -> dict[str, Any]:
    return {
        "name": f"p{n:03}",
        "age": n % 100,
        "size": 2**64 - 1 - n,
        "born": dt.date(1, 1, 1) + dt.timedelta(days=n),
        "tags": [f"t{n % 3}", "é"] if n % 2 else None,
        "mail": f"{n}@x" if n % 5 else None,
        "photo": bytes([n % 256]) * n if n % 4 else None,
        "vec": [n, -0.0, 1e-30] if n % 3 else None,
        "mood": "glad" if n % 7 else None,
        **more,
    }


def knows(n: int, a: int, b: int, **more: Any) -> dict[str, Any]:
    return {"id": f"k{n:03}", "from": f"p{a:03}", "to": f"p{b:03}", **more}


def in_small_tasks(graph: Graph) -> Graph:
    """The same graph; its merges on Spark send every table there, a few ids a task."""
    merger = replace(graph.engine.spark_merger, ids_per_task=17, few_ids=0)
    return with_parts(graph, spark_merger=merger)


def two_branches(path: Path) -> Graph:
    """`work` and `main` both moved on since they parted, without a conflict."""
    graph = in_small_tasks(init(path, SCHEMA, settings=MERGES))
    people = [person(n) for n in range(60)]
    graph.apply(
        {
            "Person": {"insert": people},
            "City": {"insert": [{"name": "Oslo"}]},
            "Knows": {"insert": [knows(n, n, n + 1) for n in range(50)]},
        }
    )
    graph.branches.create("work")
    graph.apply(
        {
            "Person": {
                "upsert": [person(n, age=101, tags=["new"]) for n in range(0, 40, 3)],
                "insert": [person(n) for n in range(100, 130)],
                "delete": ["p055", "p056"],
            },
            "City": {"insert": [{"name": "Bergen"}]},
            "Knows": {
                "upsert": [knows(n, n, 40) for n in range(5)],
                "delete": ["k049"],
            },
            "LivesIn": {"insert": [{"id": "l1", "from": "p101", "to": "Bergen"}]},
        },
        "work",
    )
    graph.apply(
        {
            "Person": {"upsert": [person(n, size=7, photo=b"main") for n in range(0, 40, 4)]},
            "Knows": {"insert": [knows(300, 1, 2, since=dt.datetime(2026, 1, 2, 3, 4))]},
        }
    )
    return graph


def held(graph: Graph, branch: str = "main") -> list[str]:
    return sorted(exported(graph, branch).splitlines())


def outcome(graph: Graph, engine: str, into: str = "main", **options: Any) -> dict[str, Any]:
    """All that can be seen of a merge, or of its refusal."""
    before = held(graph, into), graph.snapshot(into).graph_commit_id
    try:
        result = graph.merge("work", into, engine=engine, **options)
    except OmnigraphError as error:
        assert (held(graph, into), graph.snapshot(into).graph_commit_id) == before
        assert_at_rest(graph)
        return error.to_dict()
    assert_at_rest(graph)
    assert graph.verify().ok
    assert result.engine == engine
    commit = result.commit
    assert commit is not None
    changes = graph.commits.changes(commit.graph_commit_id)
    return {
        "outcome": result.outcome,
        "counts": sorted((str(c.key), c.inserted, c.updated, c.deleted) for c in commit.changes),
        "ids": sorted((str(c.key), [sorted(ids) for ids in c.ids or ()]) for c in commit.changes),
        "differs": (commit.operation, commit.message, bool(commit.merged_parent_commit_id)),
        "changes": [change.to_dict() for change in changes],
        "content": held(graph, into),
    }


def on_both(
    tmp_path: Path, prepare: Callable[[Graph], object] = lambda _: None, **options: Any
) -> dict[str, Any]:
    """The outcome, which is the same on both engines."""
    found = []
    for engine in ("local", "spark"):
        graph = two_branches(tmp_path / engine)
        prepare(graph)
        found.append(outcome(graph, engine, **options))
    assert found[0] == found[1]
    return found[1]


def test_the_result_and_the_commit_are_the_local_ones(tmp_path: Path) -> None:
    found = on_both(tmp_path, message="together")
    assert found["counts"] == [
        ("edge:Knows", 0, 5, 1),
        ("edge:LivesIn", 1, 0, 0),
        ("node:City", 1, 0, 0),
        ("node:Person", 30, 14, 2),
    ]


def test_rows_are_merged_by_workers_and_only_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("merged by the driver")

    graph = two_branches(tmp_path / "g")
    monkeypatch.setattr(spark_merge.LocalRowMerger, "merge_table", refuse)
    assert graph.merge("work", engine="spark").engine == "spark"


def test_into_a_branch_that_owns_none_of_its_tables(tmp_path: Path) -> None:
    def fork(graph: Graph) -> None:
        graph.branches.create("other", "main")

    graph = two_branches(tmp_path / "g")
    before = held(graph)
    assert on_both(tmp_path, fork, into="other")["outcome"] == "merged"
    fork(graph)
    graph.merge("work", "other", engine="spark")
    assert held(graph) == before, "main is another branch"
    assert graph.merge("work", "other", engine="spark").outcome == "already_up_to_date"


def test_conflicts_are_told_alike_and_change_nothing(tmp_path: Path) -> None:
    def disagree(graph: Graph) -> None:
        rows = [person(n, age=3, mood="sad") for n in range(0, 40, 6)]
        graph.apply({"Person": {"upsert": rows, "delete": ["p003"]}})

    found = on_both(tmp_path, disagree)
    kinds = (
        {conflict["kind"] for conflict in found["details"]["conflicts"]}
        if "details" in found
        else None
    )
    assert found["code"] == "conflict", found
    assert kinds is None or kinds == {"DivergentUpdate", "DeleteVsUpdate"}


@pytest.mark.parametrize("strategy", ["ours", "theirs"])
def test_broken_rules_are_settled_round_by_round(tmp_path: Path, strategy: str) -> None:
    def contradict(graph: Graph) -> None:
        """A dangling edge, a mail given twice, one edge too many, a row that both changed."""
        graph.apply(
            {
                "Person": {"upsert": [person(3, age=9), person(58, mail="101@x")]},
                "Knows": {
                    "insert": [knows(400, 2, 55), *(knows(401 + n, 0, 7 + n) for n in range(2))]
                },
            }
        )
        graph.apply({"Knows": {"insert": [knows(500, 0, 20)]}}, "work")

    assert on_both(tmp_path, contradict, strategy=strategy)["outcome"] == "merged"


def test_resolutions_decide_in_workers(tmp_path: Path) -> None:
    def disagree(graph: Graph) -> None:
        graph.apply({"Person": {"upsert": [person(3, age=9), person(6, age=9)]}})

    first = {"type_name": "Person", "entity_id": "p003", "property": "age"}
    second = {"type_name": "Person", "entity_id": "p006", "take": "theirs"}
    given = [{**first, "value": 77}, second]
    found = on_both(tmp_path, disagree, resolutions=given)
    assert found["outcome"] == "merged"
    unused = [*given, {"type_name": "Person", "entity_id": "p009", "take": "ours"}]
    assert "p009" in on_both(tmp_path / "unused", disagree, resolutions=unused)["error"]
    wrong = [{**first, "value": "old"}, second]
    assert "age" in on_both(tmp_path / "wrong", disagree, resolutions=wrong)["error"]


def test_a_task_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker = str(tmp_path / "failed")
    plain, graph = two_branches(tmp_path / "plain"), two_branches(tmp_path / "g")
    troubled = in_trouble_once(merge_tasks, marker, fail)
    monkeypatch.setattr(spark_merge, "merge_tasks", troubled)
    assert outcome(graph, "spark") == outcome(plain, "local")
    assert Path(marker).exists()
    assert graph.cleanup(keep=100, confirm=True).bytes > 0, "what the first attempt wrote"
    assert graph.verify().ok


def test_a_writer_who_gets_in_between_is_merged_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = two_branches(tmp_path / "g")
    run_wave = spark_merge._run_wave
    late: list[str] = []

    def interrupted(*arguments: Any) -> Any:
        yield from run_wave(*arguments)
        if not late:
            late.append("p059")
            graph.apply({"Person": {"upsert": [person(59, age=1)]}})

    monkeypatch.setattr(spark_merge, "_run_wave", interrupted)
    result = graph.merge("work", engine="spark")
    assert result.outcome == "merged"
    found = {row["id"]: row["age"] for row in graph.read("Person").to_pylist()}
    assert (found["p059"], found["p003"], found["p129"]) == (1, 101, 29)
    assert_at_rest(graph)


def test_cleanup_waits_for_files_that_nothing_names_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = two_branches(tmp_path / "g")
    run_wave = spark_merge._run_wave
    cleanups: list[Any] = []
    holds: list[list[str]] = []

    def clean_up() -> None:
        cleanups.append(graph.cleanup(keep=1, confirm=True))

    other = threading.Thread(target=clean_up)

    def slowly(*arguments: Any) -> Any:
        yield from run_wave(*arguments)
        holds.append(graph.engine.store.files.list(RECOVERY))
        if other.ident is None:
            other.start()
            other.join(2.5)  # several leases

    monkeypatch.setattr(spark_merge, "_run_wave", slowly)
    plain = outcome(two_branches(tmp_path / "plain"), "local")
    graph.merge("work", engine="spark")
    other.join()
    assert len(cleanups) == 1
    assert all(holds)
    assert held(graph) == plain["content"]
    assert graph.verify().ok


def test_other_engines_are_refused(tmp_path: Path) -> None:
    graph = two_branches(tmp_path / "g")
    with pytest.raises(InvalidArgument, match="known engines: auto, local, spark"):
        graph.merge("work", engine="flink")

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import StorageFailure
from omnigraph.execute.query_runner import QueryRunner
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph.maintain import reconciler, table_upkeep
from omnigraph.settings.models import MaintenanceSettings, Settings, WriteSettings
from omnigraph_testing.invariants import assert_at_rest, content


def opened(graph: Graph, **thresholds: object) -> Graph:
    chosen = MaintenanceSettings(look_every_commits=4, fragments=8, **thresholds)  # type: ignore[arg-type]
    return open_graph(graph.uri, settings=Settings(WriteSettings(2.0), maintenance=chosen))


def notes(graph: Graph, branch: str = "main") -> int:
    tables = {b.name: b.tables for b in graph.status().branches}[branch]
    return next(t.fragments for t in tables if t.type_name == "Note")


def write(graph: Graph, numbers: range, branch: str = "main") -> None:
    for number in numbers:
        graph.apply({"Note": {"insert": [{"id": f"{branch}{number}", "text": "x"}]}}, branch)


def test_every_written_branch_is_looked_after(graph: Graph) -> None:
    graph.branches.create("b")
    tended = opened(graph)
    write(tended, range(40))
    write(tended, range(40), "b")
    assert tended.engine.reconciler.settle()
    for branch in ("main", "b"):
        assert notes(tended, branch) < 20
        assert len(content(tended, branch)["Note"]) == 41
    commits = tended.commits.list(limit=None)
    assert not [c for c in commits if c.actor_id == table_upkeep.ACTOR]
    assert tended.verify().ok
    assert_at_rest(tended)


def test_it_can_be_switched_off(graph: Graph) -> None:
    alone = opened(graph, automatic=False)
    write(alone, range(20))
    assert notes(alone) >= 20
    assert [t.due for t in alone.status().branches[0].tables].count(True) == 1


def test_a_table_that_never_rests_is_compacted_too(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody writes during every pass: only one that took its turn is not overtaken."""
    tended = opened(graph)
    plan, optimize = table_upkeep.plan_compaction, table_upkeep.optimize_table
    numbers, writers, passes = iter(range(1000, 2000)), list[threading.Thread](), list[bool]()

    def plan_among_writers(*arguments: Any) -> Any:
        number = next(numbers)
        writers.append(threading.Thread(target=write, args=(tended, range(number, number + 1))))
        writers[-1].start()
        writers[-1].join(1.0)  # it waits for the pass, or wins
        return plan(*arguments)

    def noted(*arguments: Any) -> bool:
        passes.append(optimize(*arguments))
        return passes[-1]

    monkeypatch.setattr(table_upkeep, "plan_compaction", plan_among_writers)
    monkeypatch.setattr(table_upkeep, "optimize_table", noted)
    write(tended, range(12))
    assert tended.engine.reconciler.settle()
    for writer in writers:
        writer.join()
    assert writers
    assert set(passes) == {True}
    assert notes(tended) < 12
    assert tended.engine.reconciler.settle()
    assert_at_rest(tended)


def test_compaction_among_many_writers_loses_nothing(graph: Graph) -> None:
    tended = opened(graph)
    writers = [
        threading.Thread(target=write, args=(tended, range(n * 100, n * 100 + 40)))
        for n in range(3)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert tended.engine.reconciler.settle()
    assert notes(tended) < 60
    assert len(content(tended)["Note"]) == 121
    assert_at_rest(tended)


@pytest.mark.parametrize("schema", ["text: String", "photo: Blob"])
def test_who_waits_for_whom(uri: str, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small table takes its turn at once; blobs are copied, so a table with some is patient."""
    paces = []

    def note(*arguments: object) -> bool:
        paces.append(arguments[-1].in_turn)  # type: ignore[attr-defined]
        return False

    monkeypatch.setattr(table_upkeep, "optimize_table", note)
    graph = init(uri, f"node Thing {{ name: String @key\n {schema} }}")
    property_name = schema.partition(":")[0]
    value = b"x" if property_name == "photo" else "x"
    tended = opened(graph)
    for number in range(8):
        rows = [{"name": f"{number} {n}", property_name: value} for n in range(10)]
        tended.apply({"Thing": {"insert": rows}})
    assert tended.engine.reconciler.settle()
    assert paces == ([True] if property_name == "text" else [False, False, True])


def test_a_failing_upkeep_fails_no_write(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    def fail(*arguments: object) -> bool:
        calls.append(arguments)
        raise StorageFailure("the disk is tired")

    monkeypatch.setattr(table_upkeep, "optimize_table", fail)
    tended = opened(graph)
    write(tended, range(20))
    assert tended.engine.reconciler.settle()
    assert calls
    assert "put off: the disk is tired" in caplog.text
    assert len(content(tended)["Note"]) == 21


def test_old_versions_go_when_asked(graph: Graph) -> None:
    tended = opened(graph, keep_commits=5, cleanup_every_commits=30)
    write(tended, range(29))
    assert tended.engine.reconciler.settle()
    for path in Path(graph.uri).rglob("*"):  # hours pass
        os.utime(path, (path.stat().st_mtime - 36_000,) * 2)
    write(tended, range(29, 30))
    assert tended.engine.reconciler.settle()
    tables = tended.status().branches[0].tables
    assert next(t.versions for t in tables if t.type_name == "Note") < 30


def test_after_stop_nothing_begins(graph: Graph) -> None:
    tended = opened(graph)
    tended.engine.reconciler.stop()
    write(tended, range(20))
    assert notes(tended) >= 20


def write_many(graph: Graph) -> None:
    rows = [{"id": f"many{number}", "text": "x"} for number in range(150)]
    graph.apply({"Note": {"insert": rows}})


def unindexed_ids(graph: Graph) -> list[int]:
    found = graph.index_status()
    return [i.pending_rows for i in found if (i.type_name, i.property) == ("Note", "id")]


def test_a_large_commit_is_indexed_without_a_look(graph: Graph) -> None:
    """Writes of keyed rows look up their ids, and would scan the column without its index."""
    tended = opened(graph, unindexed_rows=100)
    write_many(tended)
    assert tended.engine.reconciler.settle()
    assert unindexed_ids(tended) == [0]


def test_the_index_of_a_large_commit_gives_way_to_queries(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first queries of the new rows need the processors. Without queries it does not wait."""
    monkeypatch.setattr(reconciler, "_REST_SECONDS", 3600.0)
    monkeypatch.setattr(reconciler, "_LONGEST_REST_SECONDS", 3600.0)
    tended = opened(graph, unindexed_rows=100)
    write_many(tended)
    assert not tended.engine.reconciler.settle(0.3)
    assert unindexed_ids(tended) == [151]
    tended.engine.reconciler.stop()
    assert unindexed_ids(tended) == [0]


def test_the_index_of_a_large_commit_gives_way_to_builds_beside_queries(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    building = [True]
    monkeypatch.setattr(reconciler, "_REST_SECONDS", 0.0)
    monkeypatch.setattr(QueryRunner, "builds_beside", property(lambda _: building[0]))
    tended = opened(graph, unindexed_rows=100)
    tended.query("query q() { match { $n: Note } return { $n.text } }")
    write_many(tended)
    assert not tended.engine.reconciler.settle(0.3)
    assert unindexed_ids(tended) == [151]
    building[0] = False
    assert tended.engine.reconciler.settle()
    assert unindexed_ids(tended) == [0]


_SLOW_STEP = """
import sys, threading, time
import omnigraph
from omnigraph.maintain import reconciler

began = threading.Event()

def slow(*_, **__):
    began.set()
    time.sleep(1.0)
    print("the step has ended", flush=True)

reconciler.look_after = slow
upkeep = omnigraph.MaintenanceSettings(look_every_commits=1)
graph = omnigraph.open(sys.argv[1], settings=omnigraph.Settings(maintenance=upkeep))
graph.apply({"Note": {"insert": [{"id": "x", "text": "x"}]}})
assert began.wait(60)
graph.engine.reconciler.stop(0.0)
print("the process ends", flush=True)
"""


def test_a_process_ends_after_the_step_of_its_upkeep(graph: Graph) -> None:
    """A thread that is in Lance when the interpreter ends brings the process down."""
    ended = subprocess.run(
        [sys.executable, "-c", _SLOW_STEP, str(graph.uri)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == ["the process ends", "the step has ended"]

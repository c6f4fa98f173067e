"""Builds beside queries: when they start, and that answers are the same whatever they do."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, reject, settings

from omnigraph.errors import InvalidArgument
from omnigraph.execute.evaluation import storage_reads
from omnigraph.execute.evaluation.row_expressions import row_rules
from omnigraph.execute.topology.builds import (
    Builds,
    Need,
    RowSource,
    build_step,
    current_build,
    decide,
)
from omnigraph.execute.topology.scoped_states import ScopedContent
from omnigraph.execute.topology.table_states import DeriveLimits
from omnigraph.execute.traversal import expand
from omnigraph.execute.views.snapshot_views import SnapshotViews, ViewCache
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.settings.models import MaintenanceSettings, Settings
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.shape import Edit
from omnigraph_testing.executor_suite import plain, run_reference, same_value
from omnigraph_testing.random_queries import RandomQuery, random_queries
from omnigraph_testing.scoped_gate import Rules, ScopedGate
from omnigraph_testing.suite_executors import BuildingGraphs, with_cache

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
SCHEMA = "node P { name: String @key  age: I32? }\nedge Knows: P -> P { since: I32 }"
HOP = (
    "query q($n: String) { match { $a: P { name: $n } $a $k:knows $b } "
    "return { $b.age, $k.since } order { $b.age, $k.since } }"
)
KEY = "query q($n: String) { match { $a: P { name: $n } } return { $a.age } }"
PERSON = TableKey.parse("node:P")

FIRST = Need(10, 1000, 0, 0, 0, hurried=False, beside=True)


@pytest.mark.parametrize(
    ("need", "way"),
    [
        (FIRST, RowSource.STORAGE),
        (replace(FIRST, reads=1), RowSource.STORAGE_AND_BUILD),
        (replace(FIRST, hurried=True), RowSource.STORAGE_AND_BUILD),
        (replace(FIRST, storage=100), RowSource.STORAGE_AND_BUILD),
        (replace(FIRST, storage=900), RowSource.WHOLE),
        # Whatever was spent before, the query does not wait.
        (replace(FIRST, spent=10_000, reads=9), RowSource.STORAGE_AND_BUILD),
        # A piece that was begun before, and is not in memory, must have cost as much again.
        (replace(FIRST, begun=1, reads=9, spent=900), RowSource.STORAGE),
        (replace(FIRST, begun=1, reads=9, spent=1000), RowSource.STORAGE_AND_BUILD),
        (replace(FIRST, begun=3, reads=9, spent=1000), RowSource.STORAGE),
        # Without a thread, or without the memory, the query that makes it worth it builds.
        (replace(FIRST, beside=False, reads=9), RowSource.STORAGE),
        (replace(FIRST, beside=False, spent=1000), RowSource.WHOLE),
    ],
)
def test_decide(need: Need, way: RowSource) -> None:
    assert decide(need) is way


def test_a_piece_is_built_once_and_failures_stay_inside() -> None:
    builds = Builds(100, beside=True, threaded=False)
    made = []

    def fail() -> None:
        raise ValueError("no")

    for name, make in (("a", lambda: made.append("a")), ("b", fail), ("a", fail), ("c", fail)):
        builds.start(name, make)
    while builds.step():
        pass
    assert made == ["a"]
    assert builds.is_idle


def test_a_piece_that_takes_too_much_memory_is_not_built() -> None:
    builds = Builds(100, beside=True, threaded=False)
    for _ in range(3):
        assert builds.reads_storage("large", 1, 1000, 101, lambda: None)
    assert builds.is_idle
    assert builds.reads_storage("small", 1, 1000, 100, lambda: None)
    assert builds.reads_storage("small", 1, 1000, 100, lambda: None)
    assert not builds.is_idle


def test_a_piece_that_is_asked_for_again_is_built_at_once() -> None:
    """One ask may be the last of the process, so the thread waits; here for longer than a test."""
    builds = Builds(100, beside=True, grace_seconds=600)
    for number in range(2):  # the second time the thread starts anew
        made = threading.Event()
        builds.start(number, made.set)
        builds.start("another", lambda: None)
        assert not builds.settle(0.05)
        assert not made.is_set()
        builds.start(number, made.set)
        assert made.wait(60)
        assert builds.settle(60)


def test_closing_ends_a_build_at_its_next_step() -> None:
    builds = Builds(100, beside=True, grace_seconds=0)
    began, ended = threading.Event(), []
    threads: list[threading.Thread] = []

    def make() -> None:
        threads.append(threading.current_thread())
        began.set()
        stopped = current_build()
        assert stopped is not None
        stopped.wait(60)
        build_step()
        ended.append("not reached")

    builds.start("a", make)
    builds.start("b", lambda: ended.append("not begun"))
    assert began.wait(60)
    builds.stop()
    builds.start("c", lambda: ended.append("not begun"))
    assert builds.settle(60)
    assert ended == []
    assert [thread.is_alive() for thread in threads] == [False]


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    for free in ("_SMALL", "_LOOKUP", "_PER_ID", "_PER_SCANNED_ROW", "_PER_FRAGMENT"):
        monkeypatch.setattr(storage_reads, free, 0)
    for free in ("_HOP", "_PER_SOURCE"):
        monkeypatch.setattr(expand, free, 0)


@pytest.fixture
def graph(tmp_path: Path, eager: None) -> Iterator[Graph]:
    alone = Settings(maintenance=MaintenanceSettings(automatic=False))
    graph = init(tmp_path / "g", SCHEMA, settings=alone)
    people = [{"name": f"p{n:02}", "age": n} for n in range(40)]
    edges = [
        {"from": f"p{n:02}", "to": f"p{n * m % 40:02}", "since": m}
        for n in range(40)
        for m in (1, 2, 9)
    ]
    graph.apply({"P": Edit(insert=people), "Knows": Edit(insert=edges)})
    yield graph
    graph.close()


class Stepped(Builds):
    """Pieces are built when a test says so."""

    def __init__(self) -> None:
        super().__init__(1 << 30, beside=True, threaded=False)


def hop(graph: Graph, name: str) -> list[dict[str, object]]:
    return graph.query(HOP, params={"n": name}).to_pylist()


def of(number: int) -> list[dict[str, object]]:
    found = sorted((number * m % 40, m) for m in (1, 2, 9))
    return [{"b.age": age, "k.since": since} for age, since in found]


def test_the_second_read_starts_the_build_and_no_query_makes_it(graph: Graph) -> None:
    cache = ViewCache(graph.engine.reader, 1 << 30, builds=(builds := Stepped()))
    beside = with_cache(graph, cache)
    views = SnapshotViews(graph.snapshot(), cache)
    assert beside.query(KEY, params={"n": "p03"}).to_pylist() == [{"a.age": 3}]
    assert builds.is_idle
    for number in (3, 4):
        assert hop(beside, f"p{number:02}") == of(number)
        assert not builds.is_idle
    assert not views.table(PERSON).content.is_loaded
    assert not views.adjacency("Knows").can_follow("out")
    while builds.step():
        pass
    assert views.table(PERSON).content.is_loaded
    assert "age" in views.table(PERSON).content.columns  # queries read it from storage before
    assert views.adjacency("Knows").can_follow("out")
    assert hop(beside, "p05") == of(5)
    assert builds.is_idle


def test_a_new_state_of_tables_in_memory_is_built_at_its_first_query(graph: Graph) -> None:
    """The commit changed too much to derive the new state."""
    never = DeriveLimits(smallest_table=0, most_ids=0)
    cache = ViewCache(graph.engine.reader, 1 << 30, limits=never, builds=(builds := Stepped()))
    beside = with_cache(graph, cache)
    for number in (3, 4):
        hop(beside, f"p{number:02}")
    while builds.step():
        pass
    graph.apply({"P": Edit(upsert=[{"name": "p06", "age": 99}])})
    ends = [(row["b.age"], row["k.since"]) for row in hop(beside, "p03")]
    assert ends == [(3, 1), (27, 9), (99, 2)]
    assert not builds.is_idle


def test_a_commit_warms_what_the_last_queries_used(graph: Graph) -> None:
    limits = DeriveLimits(smallest_table=0, most_ids=0)
    cache = ViewCache(graph.engine.reader, 1 << 30, limits=limits, builds=(builds := Stepped()))
    beside = with_cache(graph, cache)
    beside.engine.__dict__.pop("transaction")  # it would tell the other engine of its commits
    for number in (3, 4, 5):
        hop(beside, f"p{number:02}")
        while builds.step():
            pass
    for age in (98, 99):
        beside.apply({"P": Edit(upsert=[{"name": "p06", "age": age}])})
    while builds.step():
        pass
    views = SnapshotViews(graph.snapshot(), cache)
    assert views.table(PERSON).content.is_loaded
    assert views.adjacency("Knows").can_follow("out")
    ends = [(row["b.age"], row["k.since"]) for row in hop(beside, "p03")]
    assert ends == [(3, 1), (27, 9), (99, 2)]
    assert builds.is_idle


def test_a_commit_warms_the_scopes_that_the_last_queries_used(graph: Graph) -> None:
    limits = DeriveLimits(smallest_table=0, most_ids=0)
    cache = ViewCache(graph.engine.reader, 1 << 30, limits=limits, builds=(builds := Stepped()))
    beside = with_cache(graph, cache)
    beside.engine.__dict__.pop("transaction")  # it would tell the other engine of its commits
    rules: Rules = {"P": ((), "age > 2"), "Knows": ((), None)}
    other: Rules = {"P": ((), "age > 3"), "Knows": ((), None)}
    later = 'age > 2 and now() > datetime("2001-01-01T00:00:00Z")'
    timed: Rules = {"P": ((), later), "Knows": ((), None)}
    handles = [beside.as_actor(name, gate=ScopedGate(rules)) for name in ("one", "equal")]
    handles.append(beside.as_actor("other", gate=ScopedGate(other)))
    for handle in (*handles, beside.as_actor("timed", gate=ScopedGate(timed))):
        for number in (3, 4, 5):
            hop(handle, f"p{number:02}")
            while builds.step():
                pass
    beside.apply({"P": Edit(upsert=[{"name": "p06", "age": 99}])})
    while builds.step():
        pass
    for handle, lowest in zip(handles, (2, 2, 3), strict=True):
        snapshot = handle.snapshot()
        views = SnapshotViews(snapshot, cache, row_rules(snapshot.scope))
        content = views.table(PERSON).content
        assert content.is_loaded
        assert views.adjacency("Knows").can_follow("out")
        assert content.count == 40 - 1 - lowest
        assert [row["b.age"] for row in hop(handle, "p23")] == [7, 23, 99]
        assert builds.is_idle
    assert len({id(h.engine.queries._at(h.snapshot()).views) for h in handles[:2]}) == 1
    newest = graph.snapshot().tables[PERSON].content_epoch
    rules_then = {c.rule.name for c in contents_in_scope(cache) if c.name.epoch == newest}
    assert len(rules_then) == 2  # a rule that asks for the time is another one by now


def contents_in_scope(cache: ViewCache) -> list[ScopedContent]:
    entries = cache.memory._entries.values()
    return [entry.held for entry in entries if isinstance(entry.held, ScopedContent)]


def test_a_build_of_an_older_head_changes_no_answer(graph: Graph) -> None:
    cache = ViewCache(graph.engine.reader, 1 << 30, builds=(builds := Stepped()))
    beside = with_cache(graph, cache)
    for number in (3, 4):
        hop(beside, f"p{number:02}")
    graph.apply({"P": Edit(upsert=[{"name": "p06", "age": 99}], delete=["p27"])})
    while builds.step():  # of the older head
        pass
    after = [{"b.age": 3, "k.since": 1}, {"b.age": 99, "k.since": 2}]
    for _ in range(3):
        assert hop(beside, "p03") == after
        builds.step()


def test_threads_ask_while_a_real_thread_builds(graph: Graph) -> None:
    builds = Builds(1 << 30, beside=True, grace_seconds=0)
    beside = with_cache(graph, ViewCache(graph.engine.reader, 1 << 30, builds=builds))
    wrong: list[object] = []

    def ask(first: int) -> None:
        found = {number: hop(beside, f"p{number:02}") for number in range(first, 40, 4)}
        wrong.extend((n, rows) for n, rows in found.items() if rows != of(n))

    askers = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(60)
    assert not wrong
    assert builds.settle(60)
    assert hop(beside, "p07") == of(7)


def test_closing_a_graph_ends_its_thread(tmp_path: Path, graph: Graph) -> None:
    graph.engine.queries  # noqa: B018 - made at its first use
    builds = graph.engine.queries._cache.builds
    began, goes_on = threading.Event(), threading.Event()

    def make() -> None:
        began.set()
        while not goes_on.wait(0.01):
            build_step()

    builds.start("endless", make)
    assert began.wait(60)
    graph.close()
    assert builds.settle(0)


FORK = """
import os, threading
from omnigraph.execute.topology.builds import Builds

builds = Builds(100, beside=True, grace_seconds=0)
began, goes_on = threading.Event(), threading.Event()
cut_off = []
builds.when_cut_off = lambda: cut_off.append(True)
builds.start("a", lambda: (began.set(), goes_on.wait(60)))
assert began.wait(60)
child = os.fork()
if child == 0:
    # The thread is gone, and so is the build that it had begun.
    assert builds.is_idle and builds.settle(0) and cut_off == [True]
    builds.start("b", goes_on.set)
    assert builds.settle(60) and goes_on.is_set()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert cut_off == [] and not goes_on.is_set()
goes_on.set()
assert builds.settle(60)
builds.start("until the interpreter ends", lambda: threading.Event().wait(0.2))
"""


def test_a_forked_child_does_not_wait_for_a_build_of_its_parent() -> None:
    """In a process of its own, because the test process has threads of Lance."""
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def check_building(query: RandomQuery, building: BuildingGraphs) -> None:
    try:
        columns, rows = run_reference(query.graph, query.source, query.parameters)
    except InvalidArgument:
        reject()
    names, answer = building.run(query.graph, query.source, query.parameters)
    assert list(names) == list(columns)
    expected = [[plain(row[name]) for name in columns] for row in rows]
    assert same_value(expected, [[plain(row[name]) for name in columns] for row in answer])


@given(query=random_queries())
@settings(max_examples=10, deadline=None, suppress_health_check=QUIET, report_multiple_bugs=False)
def test_builds_at_any_moment_change_no_answer(
    query: RandomQuery, building: BuildingGraphs
) -> None:
    check_building(query, building)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@given(query=random_queries())
@settings(max_examples=2000, deadline=None, suppress_health_check=QUIET)
def test_builds_at_any_moment_change_no_answer_for_long(
    query: RandomQuery, building: BuildingGraphs
) -> None:
    check_building(query, building)

"""Whatever commits did, a derived view or adjacency equals one that is read afresh."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.errors import InvalidArgument, OmnigraphError
from omnigraph.execute.evaluation.row_expressions import row_rules
from omnigraph.execute.topology.adjacency import (
    INTO,
    OUT,
    Adjacency,
    PatchedAdjacency,
    StoredAdjacency,
)
from omnigraph.execute.topology.cache_files import CacheFiles, StoredTopology
from omnigraph.execute.topology.neighbours import Neighbours, StoredNeighbours
from omnigraph.execute.topology.scoped_states import PatchedScope, ScopedContent
from omnigraph.execute.topology.table_content import PatchedContent, StoredContent, TableContent
from omnigraph.execute.topology.table_states import DeriveLimits
from omnigraph.execute.views.snapshot_views import NO_FILES, SnapshotViews, ViewCache
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.settings.models import HistorySettings, MaintenanceSettings, Settings
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.shape import Edit
from omnigraph_testing.scoped_gate import Rules, ScopedGate, data_scope
from omnigraph_testing.suite_executors import with_cache

SCHEMA = """
node Person { name: String @key  age: I32? }
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> City
"""
TYPES = ("node:Person", "node:City", "edge:Knows", "edge:LivesIn")
COLUMNS = {
    "node:Person": ("name", "age"),
    "node:City": ("name",),
    "edge:Knows": ("src", "dst", "since"),
    "edge:LivesIn": ("src", "dst"),
}
RULES: Rules = {
    "Person": ((), "age is null or age > 4"),
    "City": ((), 'name != "oslo"'),
    "Knows": ((), "since is null or since < 8"),
    "LivesIn": ((), None),
}
PEOPLE = [f"p{n}" for n in range(8)]
CITIES = ["berlin", "Zürich", "oslo"]
EDGES = [f"e{n}" for n in range(10)]
ALWAYS = DeriveLimits(
    smallest_table=0, most_ids=10_000, most_share=1000.0, settle_ids=10, steps_share=1000.0
)


@dataclass(frozen=True)
class Move:
    """One step of a history: a commit, a new branch, or physical work."""

    kind: str
    branch: int
    edits: dict[str, Edit]


def person(name: str, age: int | None) -> dict[str, Any]:
    return {"name": name, "age": age}


def edge(name: str, start: str, end: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "from": start, "to": end, **more}


AGES = st.one_of(st.none(), st.integers(0, 9))
PERSONS = st.lists(
    st.builds(person, st.sampled_from(PEOPLE), AGES), max_size=4, unique_by=lambda p: p["name"]
)
KNOWS = st.lists(
    st.builds(
        edge, st.sampled_from(EDGES), st.sampled_from(PEOPLE), st.sampled_from(PEOPLE), since=AGES
    ),
    max_size=5,
    unique_by=lambda e: e["id"],
)
LIVES = st.lists(
    st.builds(edge, st.sampled_from(EDGES), st.sampled_from(PEOPLE), st.sampled_from(CITIES)),
    max_size=3,
    unique_by=lambda e: e["id"],
)


@st.composite
def edits(draw: st.DrawFn) -> dict[str, Edit]:
    cities = draw(st.lists(st.sampled_from(CITIES), max_size=2, unique=True))
    upserts = {
        "Person": draw(PERSONS),
        "City": [{"name": name} for name in cities],
        "Knows": draw(KNOWS),
        "LivesIn": draw(LIVES),
    }
    found = {}
    for name, rows in upserts.items():
        written = {row.get("id") or row["name"] for row in rows}
        known = {"Person": PEOPLE, "City": CITIES}.get(name, EDGES)
        gone = set(draw(st.lists(st.sampled_from(known), max_size=2))) - written
        if rows or gone:
            found[name] = Edit(upsert=rows, delete=sorted(gone))
    return found


MOVES = st.lists(
    st.builds(
        Move,
        st.sampled_from(["commit"] * 6 + ["fork", "optimize"]),
        st.integers(0, 3),
        edits(),
    ),
    min_size=2,
    max_size=10,
)


def play(graph: Graph, move: Move, branches: list[str]) -> None:
    branch = branches[move.branch % len(branches)]
    if move.kind == "fork":
        branches.append(f"b{len(branches)}")
        graph.branches.create(branches[-1], branch)
    elif move.kind in ("optimize", "cleanup"):
        graph.optimize(branch)
        if move.kind == "cleanup":
            graph.cleanup(keep=1, confirm=True)
    else:
        try:
            graph.apply(move.edits, branch)
        except OmnigraphError:
            return  # an edit that the graph's integrity refuses changes nothing


def check_same(snapshot: Snapshot, derived: ViewCache, graph: Graph) -> None:
    ours = SnapshotViews(snapshot, derived)
    fresh = SnapshotViews(snapshot, ViewCache(graph.engine.reader, 1 << 30, NO_FILES))
    counting = SnapshotViews(snapshot, ViewCache(graph.engine.reader, 1 << 30, NO_FILES))
    for name in ("Knows", "LivesIn"):
        for way, per_edge in product((OUT, INTO), (True, False)):
            counted = counting.adjacency(name).degrees(way, per_edge=per_edge)
            # The first without arrays, the second with those of one direction.
            derived_counts = ours.adjacency(name).degrees(way, per_edge=per_edge)
            expected = fresh.adjacency(name).out if way == OUT else fresh.adjacency(name).into
            offsets = (expected if per_edge else expected.pairs).offsets
            assert counted.tolist() == derived_counts.tolist() == np.diff(offsets).tolist()
        assert not counting.adjacency(name).made
        check_adjacency(ours.adjacency(name), fresh.adjacency(name))
    for key in map(TableKey.parse, TYPES):
        one, other = ours.table(key), fresh.table(key)
        assert one.count == other.count
        for wanted in (*PEOPLE, *CITIES, *EDGES, ""):
            assert one.find_one(wanted) == other.find_one(wanted)
        assert one.find(other.ids).tolist() == list(range(other.count))
        some = np.array([-1, *range(0, other.count, 2), -1], np.int32)
        wanted_rows = pa.array(some, mask=some == -1)
        assert one.content.few_ids(some).equals(other.ids.take(wanted_rows))
        for column in COLUMNS[str(key)]:
            few = one.content.few_values(column, some)
            assert few is None or few.equals(other.column(column).take(wanted_rows))
            assert one.column(column).equals(other.column(column)), (str(key), column)
            assert one.codes(column).codes.tolist() == other.codes(column).codes.tolist()
        assert one.ids.equals(other.ids)
        assert one.addresses.tolist() == other.addresses.tolist()
    check_same_in_scope(snapshot, derived, graph)


def check_same_in_scope(snapshot: Snapshot, derived: ViewCache, graph: Graph) -> None:
    rules = row_rules(data_scope(RULES, snapshot.catalog))
    ours = SnapshotViews(snapshot, derived, rules)
    fresh = SnapshotViews(snapshot, ViewCache(graph.engine.reader, 1 << 30, NO_FILES), rules)
    for key in map(TableKey.parse, TYPES):
        one, other = ours.table(key).content, fresh.table(key).content
        if not isinstance(other, ScopedContent):
            continue
        assert isinstance(one, ScopedContent)
        assert one.count == other.count
        for wanted in (*PEOPLE, *CITIES, *EDGES, ""):
            assert one.rank(wanted) == other.rank(wanted)
        here = np.array([-1, *range(other.count), -1], np.int32)
        there = np.array([-1, *range(other.base.count), -1], np.int32)
        assert one.in_base(here).tolist() == other.in_base(here).tolist()
        assert one.from_base(there).tolist() == other.from_base(there).tolist()
        wanted_rows = pa.array(here, mask=here == -1)
        assert one.few_ids(here).equals(other.ids.take(wanted_rows))
        for column in COLUMNS[str(key)]:
            few = one.few_values(column, here)
            assert few is None or few.equals(other.column(column).take(wanted_rows))
    for name in ("Knows", "LivesIn"):
        check_adjacency(ours.adjacency(name), fresh.adjacency(name))
    for key in map(TableKey.parse, TYPES):
        view, expected = ours.table(key), fresh.table(key)
        one, other = view.content, expected.content
        if isinstance(one, ScopedContent) and isinstance(other, ScopedContent):
            assert one.kept.tolist() == other.kept.tolist()
            assert one.places.tolist() == other.places.tolist()
            assert one.kept.dtype == one.places.dtype == np.int32
        assert view.find(expected.ids).tolist() == list(range(expected.count))
        for column in ("id", *COLUMNS[str(key)]):
            assert view.column(column).equals(expected.column(column)), (str(key), column)
        assert view.addresses.tolist() == expected.addresses.tolist()


def check_adjacency(one: Adjacency, other: Adjacency) -> None:
    ways = [(one.out, other.out), (one.into, other.into)]
    ways += [(one.out.pairs, other.out.pairs), (one.into.pairs, other.into.pairs)]
    for near, expected in ways:
        check_few(near, expected)
    for near, expected in ways:
        for array in ("offsets", "nodes", "edges"):
            ours, theirs = getattr(near, array), getattr(expected, array)
            assert ours.tolist() == theirs.tolist(), array
            assert ours.dtype == theirs.dtype
        assert near.largest >= np.diff(expected.offsets).max(initial=0)
        check_few(near, expected)


def check_few(near: Neighbours, expected: Neighbours) -> None:
    sources = np.arange(len(expected.offsets) - 1, dtype=np.int32)[::-1]
    for ours, theirs in zip(near.follow(sources), expected.follow(sources), strict=True):
        assert ours.tolist() == theirs.tolist()
    assert near.degrees(sources).tolist() == expected.degrees(sources).tolist()
    rows, nodes, _ = expected.follow(sources)
    for ours, theirs in zip(
        near.meet(sources[rows], nodes), expected.meet(sources[rows], nodes), strict=True
    ):
        assert ours.tolist() == theirs.tolist()


def run_history(folder: Path, moves: list[Move], stored: StoredTopology) -> None:
    graph = init(folder, SCHEMA)
    everybody = [person(name, None) for name in PEOPLE]
    graph.apply({"Person": Edit(insert=everybody), "City": Edit(insert=[{"name": CITIES[0]}])})
    branches, derived = ["main"], ViewCache(graph.engine.reader, 1 << 30, stored, ALWAYS)
    seen = []
    for move in moves:
        play(graph, move, branches)
        snapshot = graph.snapshot(branches[move.branch % len(branches)])
        check_same(snapshot, derived, graph)
        seen.append(snapshot)
    for snapshot in (*seen[::-2], *(graph.snapshot(at=s.graph_commit_id) for s in seen[:3])):
        check_same(snapshot, derived, graph)
    if stored is not NO_FILES:
        later = ViewCache(graph.engine.reader, 1 << 30, stored, ALWAYS)
        for branch in branches:
            check_same(graph.snapshot(branch), later, graph)


QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]


@given(MOVES)
@settings(max_examples=10, deadline=None, suppress_health_check=QUIET)
def test_derived_equals_fresh(tmp_path_factory: pytest.TempPathFactory, moves: list[Move]) -> None:
    run_history(tmp_path_factory.mktemp("graph"), moves, NO_FILES)


@given(MOVES)
@settings(max_examples=6, deadline=None, suppress_health_check=QUIET)
def test_derived_from_files_equals_fresh(
    tmp_path_factory: pytest.TempPathFactory, moves: list[Move]
) -> None:
    files = CacheFiles(tmp_path_factory.mktemp("cache"), 1 << 30)
    run_history(tmp_path_factory.mktemp("graph"), moves, StoredTopology(files, smallest=0))


@given(
    st.lists(
        st.builds(
            Move,
            st.sampled_from(["commit"] * 4 + ["fork", "optimize", "cleanup", "cleanup"]),
            st.integers(0, 3),
            edits(),
        ),
        min_size=3,
        max_size=8,
    ),
    st.booleans(),
)
@settings(max_examples=5, deadline=None, suppress_health_check=QUIET)
def test_derived_equals_fresh_though_older_versions_go(
    tmp_path_factory: pytest.TempPathFactory, moves: list[Move], tight: bool
) -> None:
    """Nothing of a state in memory may need the version that it was read from."""
    at_once = Settings(maintenance=MaintenanceSettings(minimum_age_seconds=0, automatic=False))
    graph = init(tmp_path_factory.mktemp("graph"), SCHEMA, settings=at_once)
    graph.apply({"Person": Edit(insert=[person(name, None) for name in PEOPLE])})
    derived = ViewCache(graph.engine.reader, 1 if tight else 1 << 30, NO_FILES, ALWAYS)
    branches = ["main"]
    for move in moves:
        snapshot = graph.snapshot(branches[move.branch % len(branches)])
        views = SnapshotViews(snapshot, derived)
        assert views.table(TableKey.parse("node:Person")).ids is not None
        assert views.adjacency("Knows").out is not None
        play(graph, move, branches)
        if move.kind == "cleanup":
            check_same(graph.snapshot(branches[move.branch % len(branches)]), derived, graph)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@given(MOVES, st.booleans())
@settings(max_examples=400, deadline=None, suppress_health_check=QUIET)
def test_derived_equals_fresh_for_long(
    tmp_path_factory: pytest.TempPathFactory, moves: list[Move], kept: bool
) -> None:
    files = CacheFiles(tmp_path_factory.mktemp("cache") if kept else None, 1 << 30)
    stored = StoredTopology(files, smallest=0) if kept else NO_FILES
    run_history(tmp_path_factory.mktemp("graph"), moves, stored)


def test_a_commit_is_followed_by_a_derived_state(tmp_path: Path) -> None:
    """The tests above would pass on rebuilds: here derivation must happen."""
    graph = init(tmp_path / "g", SCHEMA)
    people = [person(name, 1) for name in PEOPLE]
    graph.apply({"Person": Edit(insert=people)})
    graph.apply({"Knows": Edit(insert=[edge("e1", "p1", "p2"), edge("e2", "p1", "p1")])})
    cache = ViewCache(graph.engine.reader, 1 << 30, NO_FILES, ALWAYS)
    check_same(graph.snapshot(), cache, graph)
    graph.apply(
        {
            "Person": Edit(upsert=[person("p10", 3), person("p7", 9)]),
            "Knows": Edit(upsert=[edge("e0", "p1", "p2"), edge("e2", "p10", "p1")]),
        }
    )
    views = SnapshotViews(graph.snapshot(), cache)
    assert isinstance(views.table(TableKey.parse("node:Person")).content, PatchedContent)
    assert isinstance(views.adjacency("Knows"), PatchedAdjacency)
    check_same(graph.snapshot(), cache, graph)


def scoped_people(snapshot: Snapshot, cache: ViewCache, rule: str) -> ScopedContent:
    rules = row_rules(data_scope({"Person": ((), rule)}, snapshot.catalog))
    content = SnapshotViews(snapshot, cache, rules).table(TableKey.parse("node:Person")).content
    assert isinstance(content, ScopedContent)
    return content


def test_after_a_commit_a_rule_is_evaluated_on_the_changed_rows(tmp_path: Path) -> None:
    graph = init(tmp_path / "g", SCHEMA)
    graph.apply({"Person": Edit(insert=[person(name, 1) for name in PEOPLE])})
    cache = ViewCache(graph.engine.reader, 1 << 30, NO_FILES, ALWAYS)
    before = scoped_people(graph.snapshot(), cache, "age < 5")
    assert not before.is_loaded
    before.build()
    assert (before.count, before.is_loaded) == (8, True)
    graph.apply({"Person": Edit(upsert=[person("p10", 3), person("p3", 9)], delete=["p5"])})
    after = scoped_people(graph.snapshot(), cache, "age < 5")
    assert isinstance(after, PatchedScope)
    assert after.is_loaded
    assert after.few_ids(np.arange(7, dtype=np.int32)).to_pylist() == [
        *["p0", "p1", "p10", "p2"],
        *["p4", "p6", "p7"],
    ]
    assert [after.find_one(name) for name in ("p10", "p3", "p5", "p7")] == [2, -1, -1, 6]
    assert not {"kept", "places", "ids"} & {*after.__dict__}
    # A commit that moves no row and no row in scope needs no arrays of its own.
    graph.apply({"Person": Edit(upsert=[person("p4", 2)])})
    graph.apply({"Person": Edit(insert=[person("p5", 9)], delete=["p10"])})
    graph.apply({"Person": Edit(upsert=[person("p3", 4), person("p5", 1)])})
    last = scoped_people(graph.snapshot(), cache, "age < 5")
    assert isinstance(last, PatchedScope)
    assert last.kept is before.kept
    assert last.places is before.places
    assert last.own_bytes == scoped_people(graph.snapshot(), cache, "age < 6").own_bytes


def test_a_rule_that_failed_for_an_older_state_is_evaluated_again(tmp_path: Path) -> None:
    graph = init(tmp_path / "g", SCHEMA)
    graph.apply({"Person": Edit(insert=[person(name, int(name[1])) for name in PEOPLE])})
    cache = ViewCache(graph.engine.reader, 1 << 30, NO_FILES, ALWAYS)
    actor = with_cache(graph, cache).as_actor("a", gate=ScopedGate({"Person": ((), "8 / age > 1")}))
    names = "match { $p: Person } return { $p.name as n } order { n }"
    for _ in range(2):
        with pytest.raises(InvalidArgument, match="has no value for some row"):
            actor.query(names)
    graph.apply({"Person": Edit(delete=["p0"])})
    assert [row["n"] for row in actor.query(names)] == ["p1", "p2", "p3", "p4"]
    graph.apply({"Person": Edit(upsert=[person("p6", 0)])})
    with pytest.raises(InvalidArgument, match="has no value for some row"):
        actor.query(names)


def test_a_new_process_derives_across_pages_of_history(tmp_path: Path) -> None:
    history = HistorySettings(window_low=2, window_high=4)
    graph = init(tmp_path / "g", SCHEMA, settings=Settings(history=history))
    graph.apply({"Person": Edit(insert=[person(name, 1) for name in PEOPLE])})
    graph.apply({"Knows": Edit(insert=[edge("e1", "p1", "p2"), edge("e2", "p1", "p1")])})
    stored = StoredTopology(CacheFiles(tmp_path / "cache", 1 << 30), smallest=0)
    limits = replace(ALWAYS, settle_ids=100)
    check_same(graph.snapshot(), ViewCache(graph.engine.reader, 1 << 30, stored, limits), graph)
    for number in range(12):
        graph.apply({"Knows": Edit(insert=[edge(f"f{number}", "p3", PEOPLE[number % 8])])})
    later = open_graph(graph.uri, read_only=True)
    cache = ViewCache(later.engine.reader, 1 << 30, stored, limits)
    assert isinstance(SnapshotViews(later.snapshot(), cache).adjacency("Knows"), PatchedAdjacency)
    check_same(later.snapshot(), cache, later)


COUNT = "query q() { match { $a: Person $a $k:knows $b } return { count($k) as n } }"


def test_readers_beside_a_writer_see_whole_states(tmp_path: Path) -> None:
    graph = init(tmp_path / "g", SCHEMA)
    graph.apply({"Person": Edit(insert=[person(name, 1) for name in PEOPLE])})
    reading = with_cache(graph, ViewCache(graph.engine.reader, 20_000, NO_FILES, ALWAYS))
    seen: list[tuple[str, int]] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            result = reading.query(COUNT)
            seen.append((result.graph_commit_id, result.to_pylist()[0]["n"]))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    expected = {graph.snapshot().graph_commit_id: 0}
    for number in range(25):
        names = PEOPLE[number % 8], PEOPLE[number * 3 % 8]
        graph.apply({"Knows": Edit(insert=[edge(f"x{number * 7 % 25}", *names)])})
        expected[graph.snapshot().graph_commit_id] = number + 1
    done.set()
    for reader in readers:
        reader.join()
    assert seen
    assert [(commit, expected[commit]) for commit, _ in seen] == seen


def test_states_that_only_moved_on_disk_share_what_is_in_memory(tmp_path: Path) -> None:
    graph = init(tmp_path / "g", SCHEMA)
    for name in PEOPLE:
        graph.apply({"Person": Edit(insert=[person(name, 1)])})
    cache = ViewCache(graph.engine.reader, 1 << 30)
    key = TableKey.parse("node:Person")
    before = SnapshotViews(graph.snapshot(), cache).table(key)
    held = before.ids, before.column("age")
    graph.branches.create("other")
    graph.optimize()
    after = SnapshotViews(graph.snapshot(), cache).table(key)
    assert after.dataset.version != before.dataset.version
    assert (after.ids, after.column("age")) == held
    assert after.ids is held[0]
    assert after.column("age") is held[1]
    assert after.addresses.tolist() != before.addresses.tolist()
    branch = SnapshotViews(graph.snapshot("other"), cache).table(key)
    assert branch.ids is held[0]


def test_what_is_made_while_its_tables_move_on_disk_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = init(tmp_path / "g", SCHEMA)
    for name in PEOPLE:
        graph.apply({"Person": Edit(insert=[person(name, 1)])})
        graph.apply({"Knows": Edit(insert=[edge(f"to {name}", PEOPLE[0], name)])})
    cache = ViewCache(graph.engine.reader, 1 << 30)
    key = "Knows"
    before = SnapshotViews(graph.snapshot(), cache).adjacency(key)
    moved: list[Adjacency] = []
    make = StoredAdjacency.make

    def moves_meanwhile(adjacency: StoredAdjacency, direction: str) -> StoredNeighbours:
        made = make(adjacency, direction)
        graph.optimize()
        moved.append(SnapshotViews(graph.snapshot(), cache).adjacency(key))
        return made

    monkeypatch.setattr(StoredAdjacency, "make", moves_meanwhile)
    made = before.out
    [after] = moved
    assert after is not before
    assert after.contents.edges.at != before.contents.edges.at
    assert after.in_memory(OUT) is made
    assert after.out is made


def test_what_is_loaded_while_its_table_moves_on_disk_is_not_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = init(tmp_path / "g", SCHEMA)
    for name in PEOPLE:
        graph.apply({"Person": Edit(insert=[person(name, 1)])})
    cache = ViewCache(graph.engine.reader, 1 << 30)
    key = TableKey.parse("node:Person")
    before = SnapshotViews(graph.snapshot(), cache).table(key).content
    moved: list[TableContent] = []
    sort = StoredContent._sort

    def moves_meanwhile(content: StoredContent) -> pa.Array:
        ids = sort(content)
        graph.optimize()
        moved.append(SnapshotViews(graph.snapshot(), cache).table(key).content)
        return ids

    monkeypatch.setattr(StoredContent, "_sort", moves_meanwhile)
    ids = before.ids
    [after] = moved
    assert after.at != before.at
    assert after.loaded_ids is ids
    assert after.column("age") is not None

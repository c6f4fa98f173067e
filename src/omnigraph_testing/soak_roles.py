"""The processes of a soak test, and the model that says what the graph must hold.

Each process may be killed at any moment. Every branch edits only entities with its name, by a fixed
sequence of operations, and one of its entities counts them. A merge brings in the entities of
another branch in the state after some operation. So each snapshot can be checked alone: its
counters say how many operations of each branch it has, and its content is a function of these.
"""

from __future__ import annotations

import itertools
import random
import statistics
import tempfile
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.compute as pc

from omnigraph.catalog.model import Catalog, EdgeType, Key, NodeType, Property
from omnigraph.errors import ExpectedVersionMismatch, SnapshotReclaimed
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph.graph.reads import read_type
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.settings.models import MaintenanceSettings, Settings, WriteSettings
from omnigraph.values.scalars import ScalarKind, ScalarType
from omnigraph_testing.crash import Report

BRANCHES = ("main", "a", "b", "c", "d")
HOP = """
query q($n: String) {
  match { $p: Person { name: $n } $p knows $f }
  return { $p.age as count, $f.name as name, $f.age as age }
}
"""
VISIT = "query q($n: String) { match { $p: Place { name: $n } } return { $p.visit as visit } }"
_SLOTS = 150
_DELETES = 0.2
# A table of this size is not read again after a commit: its new state is derived from an older one.
_PLACES = 6_000
_VISIT_EVERY = 10
_VISITED = 10

Counts = dict[str, int]
"""Branch -> number of its operations that a snapshot has."""


def soak_catalog() -> Catalog:
    number = ScalarType(ScalarKind.I64)
    people = NodeType(
        "Person",
        (Property("name", ScalarType(ScalarKind.STRING)), Property("age", number)),
        (Key(("name",)),),
    )
    places = NodeType(
        "Place",
        (Property("name", ScalarType(ScalarKind.STRING)), Property("visit", number)),
        (Key(("name",)),),
    )
    knows = EdgeType("Knows", "Person", "Person", (Property("since", number),))
    return Catalog(nodes=(people, places), edges=(knows,))


def first_edits() -> dict[str, Any]:
    """The first commit of a soak graph: a large table, of which few rows are written later."""
    rows = [{"name": f"place-{number}", "visit": 0} for number in range(_PLACES)]
    return {"Place": {"insert": rows}}


def counter(branch: str) -> str:
    return f"{branch}-count"


def edits_of(branch: str, number: int) -> dict[str, Any]:
    """Operation `number` of a branch: insert, update or delete one person and its edge."""
    slot, deletes = _operation(branch, number)
    person = f"{branch}-{slot}"
    count = {"name": counter(branch), "age": number}
    edits: dict[str, Any] = {}
    if number % _VISIT_EVERY == 0:
        edits["Place"] = {"upsert": [{"name": visited(branch, number), "visit": number}]}
    if deletes:
        return {**edits, "Person": {"upsert": [count], "delete": [person]}}
    edge = {"id": f"{branch}-k{slot}", "from": counter(branch), "to": person, "since": number}
    return {
        **edits,
        "Person": {"upsert": [count, {"name": person, "age": number}]},
        "Knows": {"upsert": [edge]},
    }


def visited(branch: str, number: int) -> str:
    """The place that every tenth operation of a branch writes."""
    return f"{branch}-{number // _VISIT_EVERY % _VISITED}"


def counts_of(graph: Graph, branch: str) -> Counts:
    """How many operations of every branch the head of a branch has."""
    rows = graph.read("Person", branch, ids=[counter(b) for b in BRANCHES]).to_pylist()
    return {row["name"].removesuffix("-count"): row["age"] for row in rows}


class SoakModel:
    """The expected entities of a branch after any number of its operations."""

    def __init__(self) -> None:
        self._numbers: dict[str, dict[int, list[int]]] = {
            branch: defaultdict(list) for branch in BRANCHES
        }
        self._known: Counts = dict.fromkeys(BRANCHES, 0)

    def people(self, branch: str, count: int) -> dict[str, int]:
        """Name -> age, without the counter."""
        self._learn(branch, count)
        found = {}
        for slot, numbers in self._numbers[branch].items():
            position = bisect_right(numbers, count)
            if position and not _operation(branch, numbers[position - 1])[1]:
                found[f"{branch}-{slot}"] = numbers[position - 1]
        return found

    def check_snapshot(self, graph: Graph, snapshot: Snapshot) -> Counts:
        """Compare a whole snapshot with the model. Returns its counts."""
        people = read_type(graph.engine, snapshot, "Person", None, None).to_pylist()
        edges = read_type(graph.engine, snapshot, "Knows", None, None).to_pylist()
        ages = {row["name"]: row["age"] for row in people}
        assert len(ages) == len(people), "a person occurs twice"
        counts = {b: ages.pop(counter(b)) for b in BRANCHES if counter(b) in ages}
        wanted = self._all_people(counts)
        assert ages == wanted, _difference(snapshot, ages, wanted)
        self._check_places(graph, snapshot, counts)
        known = {row["id"]: (row["src"], row["dst"], row["since"]) for row in edges}
        assert len(known) == len(edges), "an edge occurs twice"
        assert known == dict(_edges(wanted)), _difference(snapshot, known, dict(_edges(wanted)))
        return counts

    def _check_places(self, graph: Graph, snapshot: Snapshot, counts: Counts) -> None:
        table = read_type(graph.engine, snapshot, "Place", None, ["name", "visit"])
        untouched = pc.starts_with(table.column("name"), "place-")
        # Only the commit that made the graph has no places.
        assert pc.sum(untouched).as_py() == _PLACES or (not len(table) and not counts)
        found = {r["name"]: r["visit"] for r in table.filter(pc.invert(untouched)).to_pylist()}
        wanted: dict[str, int] = {}
        for branch, count in counts.items():
            for number in range(_VISIT_EVERY, count + 1, _VISIT_EVERY):
                wanted[visited(branch, number)] = number
        assert found == wanted, _difference(snapshot, found, wanted)

    def check_hop(self, origin: str, rows: Iterable[Mapping[str, Any]]) -> int | None:
        """Compare one hop, from a counter to all people of its branch. Returns the count."""
        found = list(rows)
        counts = {row["count"] for row in found}
        if not found:
            return None
        assert len(counts) == 1, f"one counter with several values: {counts}"
        (count,) = counts
        seen = {row["name"]: row["age"] for row in found}
        assert seen == self.people(origin, count), f"{origin} after {count} operations"
        return int(count)

    def _all_people(self, counts: Counts) -> dict[str, int]:
        found: dict[str, int] = {}
        for branch, count in counts.items():
            found |= self.people(branch, count)
        return found

    def _learn(self, branch: str, count: int) -> None:
        for number in range(self._known[branch] + 1, count + 1):
            self._numbers[branch][_operation(branch, number)[0]].append(number)
        self._known[branch] = max(self._known[branch], count)


def _operation(branch: str, number: int) -> tuple[int, bool]:
    chance = random.Random(f"{branch}/{number}")
    return chance.randrange(_SLOTS), chance.random() < _DELETES


def _edges(people: Mapping[str, int]) -> Iterable[tuple[str, tuple[str, str, int]]]:
    for name, age in people.items():
        branch, _, slot = name.partition("-")
        yield f"{branch}-k{slot}", (counter(branch), name, age)


def _difference(snapshot: Snapshot, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    names = sorted(n for n in {*found, *wanted} if found.get(n) != wanted.get(n))
    shown = [(n, found.get(n), wanted.get(n)) for n in names[:5]]
    return f"{snapshot.graph_branch}@{snapshot.graph_commit_id}: (name, found, wanted) {shown}"


KEPT_COMMITS = 20
_TRIES = 100


def soak_settings(minimum_age: float) -> Settings:
    """The default settings, except for a short lease and a short age: kills cost no time."""
    return Settings(
        write=WriteSettings(lease_seconds=3.0),
        maintenance=MaintenanceSettings(minimum_age_seconds=minimum_age),
    )


def writer(report: Report, uri: str, branch: str, commits: int, minimum_age: float) -> None:
    """Apply the next operations of one branch, and read each back, by turns in two handles.

    Reports the number of each operation and the CPU milliseconds of its read.
    """
    graph = open_graph(uri, actor=f"writer of {branch}", settings=soak_settings(minimum_age))
    handles = (graph, open_graph(uri, read_only=True, settings=soak_settings(minimum_age)))
    model = SoakModel()
    done = counts_of(graph, branch).get(branch, 0)
    report(done)
    for number in range(done + 1, done + 1 + commits):
        _insist(graph.apply, edits_of(branch, number), branch)
        report([number, _insist(_read_back, handles[number % 2], model, branch, number)])


def _read_back(graph: Graph, model: SoakModel, branch: str, number: int) -> float:
    began = time.process_time()
    rows = graph.query(HOP, params={"n": counter(branch)}, branch=branch).to_pylist()
    spent = (time.process_time() - began) * 1000
    assert model.check_hop(branch, rows) in (number, None), (branch, number)
    if number % _VISIT_EVERY == 0:
        place = visited(branch, number)
        found = graph.query(VISIT, params={"n": place}, branch=branch).to_pylist()
        assert found == [{"visit": number}], (branch, number, found)
    return spent


def merger(report: Report, uri: str, seed: int, pause: float, minimum_age: float) -> None:
    """Merge random branches without end. No merged operation may get lost."""
    graph = open_graph(uri, actor="merger", settings=soak_settings(minimum_age))
    chance = random.Random(seed)
    while True:
        source, target = chance.sample(BRANCHES, 2)
        before = counts_of(graph, source)
        result = _insist(graph.merge, source, target)
        after = counts_of(graph, target)
        assert all(after[b] >= count for b, count in before.items()), (source, target)
        report([result.outcome, source, target])
        time.sleep(chance.uniform(0, 2 * pause))


def keeper(report: Report, uri: str, seed: int, pause: float, minimum_age: float) -> None:
    """Optimize and clean up without end."""
    graph = open_graph(uri, actor="keeper", settings=soak_settings(minimum_age))
    chance = random.Random(seed)
    for turn in itertools.count():
        if turn % 3 == 2:
            report(["cleanup", graph.cleanup(keep=KEPT_COMMITS, confirm=True).bytes])
        else:
            report(["optimize", len(graph.optimize(chance.choice(BRANCHES)))])
        time.sleep(chance.uniform(0, 2 * pause))


def reader(report: Report, uri: str, seed: int, pause: float, minimum_age: float) -> None:
    """Read heads, older commits and older snapshots without end, and check them.

    One handle sees all commits. Reports the CPU milliseconds of each query of a head, and whether
    the head has moved since the last one.
    """
    graph = open_graph(uri, read_only=True, settings=soak_settings(minimum_age))
    chance = random.Random(seed)
    model = SoakModel()
    pinned = graph.snapshot()
    seen: dict[str, str] = {}
    while True:
        branch, origin = chance.choice(BRANCHES), chance.choice(BRANCHES)
        choice = chance.random()
        try:
            if choice < 0.4:
                began = time.process_time()
                rows = graph.query(HOP, params={"n": counter(origin)}, branch=branch).to_pylist()
                spent = (time.process_time() - began) * 1000
                model.check_hop(origin, rows)
                head = graph.snapshot(branch).graph_commit_id
                report(["1-hop", spent, head != seen.get(branch)])
                seen[branch] = head
            elif choice < 0.6:
                model.check_snapshot(graph, graph.snapshot(branch))
            elif choice < 0.8:
                listed = graph.commits.list(branch, limit=2 * KEPT_COMMITS, first_parent=True)
                commit = chance.choice(listed).graph_commit_id
                model.check_snapshot(graph, graph.snapshot(branch, at=commit))
            else:
                pinned, old = graph.snapshot(branch), pinned
                model.check_snapshot(graph, old)
        except SnapshotReclaimed:
            report("reclaimed")
        else:
            report("right")
        time.sleep(chance.uniform(0, pause / 5))


def measure(report: Report, uri: str, samples: int, minimum_age: float) -> None:
    """Median times on this graph and on a new graph with the same rows, by turns.

    The new graph shows how fast the machine is at this moment.
    """
    old = open_graph(uri, actor="measure", settings=soak_settings(minimum_age))
    with tempfile.TemporaryDirectory(prefix="omnigraph-soak-") as folder:
        young = init(str(Path(folder) / "young"), soak_catalog(), settings=soak_settings(60))
        for type_name in ("Person", "Knows", "Place"):
            rows = _as_given(old.read(type_name).to_pylist())
            young.apply({type_name: {"insert": rows}})
        number = itertools.count(counts_of(old, "main").get("main", 0) + 1)
        measured: dict[str, Callable[[Graph], object]] = {
            "commit": _both(lambda graph, n: graph.apply(edits_of("main", n)), number),
            "point read": lambda graph: graph.read("Person", ids=[counter("main")]),
            "1-hop": lambda graph: graph.query(HOP, params={"n": counter("main")}),
        }
        report({n: _medians(action, old, young, samples) for n, action in measured.items()})
    old.engine.reconciler.settle()
    report(counts_of(old, "main")["main"])


def _as_given(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = {"src": "from", "dst": "to"}
    return [{names.get(key, key): value for key, value in row.items()} for row in rows]


def _both(
    apply: Callable[[Graph, int], object], numbers: Iterator[int]
) -> Callable[[Graph], object]:
    """An action that takes each number twice: for one graph, then for the other."""
    doubled = (number for number in numbers for _ in range(2))
    return lambda graph: apply(graph, next(doubled))


def _medians(
    action: Callable[[Graph], object], old: Graph, young: Graph, samples: int
) -> tuple[float, float]:
    taken: tuple[list[float], list[float]] = ([], [])
    for turn in range(samples + samples // 4):
        for graph, times in zip((old, young), taken, strict=True):
            began = time.perf_counter()
            action(graph)
            if turn >= samples // 4:  # the first turns warm up
                times.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken[0]), statistics.median(taken[1])


_Answer = TypeVar("_Answer")


def _insist(action: Callable[..., _Answer], *arguments: object) -> _Answer:
    """Repeat an action that lost a race or whose snapshot was cleaned up, as the docs advise."""
    for _ in range(_TRIES):
        try:
            return action(*arguments)
        except (ExpectedVersionMismatch, SnapshotReclaimed):
            continue
    return action(*arguments)

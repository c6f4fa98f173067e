"""What a soaked graph must hold: everything follows from one number per branch.

Every branch edits only entities that bear its name, by a fixed sequence of operations, and counts
them in one of them. A merge brings in the entities of other branches as they were after some
operation. So any snapshot can be judged by itself: it says how many operations of each branch it
has, and what it must hold then is a function of that.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from omnigraph.catalog.model import Catalog, EdgeType, Key, NodeType, Property
from omnigraph.graph.handle import Graph
from omnigraph.graph.reads import read_type
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.scalars import ScalarKind, ScalarType

BRANCHES = ("main", "a", "b", "c", "d")
HOP = """
query q($n: String) {
  match { $p: Person { name: $n } $p knows $f }
  return { $p.age as count, $f.name as name, $f.age as age }
}
"""
_SLOTS = 150
_DELETES = 0.2

Counts = dict[str, int]
"""Branch -> how many of its operations a snapshot has."""


def soak_catalog() -> Catalog:
    number = ScalarType(ScalarKind.I64)
    people = NodeType(
        "Person",
        (Property("name", ScalarType(ScalarKind.STRING)), Property("age", number)),
        (Key(("name",)),),
    )
    knows = EdgeType("Knows", "Person", "Person", (Property("since", number),))
    return Catalog(nodes=(people,), edges=(knows,))


def counter(branch: str) -> str:
    return f"{branch}-count"


def edits_of(branch: str, number: int) -> dict[str, Any]:
    """Operation `number` of a branch: one person comes, changes or goes; the edge goes along."""
    slot, deletes = _operation(branch, number)
    person = f"{branch}-{slot}"
    count = {"name": counter(branch), "age": number}
    if deletes:
        return {"Person": {"upsert": [count], "delete": [person]}}
    edge = {"id": f"{branch}-k{slot}", "from": counter(branch), "to": person, "since": number}
    return {
        "Person": {"upsert": [count, {"name": person, "age": number}]},
        "Knows": {"upsert": [edge]},
    }


def counts_of(graph: Graph, branch: str) -> Counts:
    """What the head of a branch has of every branch."""
    rows = graph.read("Person", branch, ids=[counter(b) for b in BRANCHES]).to_pylist()
    return {row["name"].removesuffix("-count"): row["age"] for row in rows}


class SoakModel:
    """The state of a branch's entities after any of its operations."""

    def __init__(self) -> None:
        self._numbers: dict[str, dict[int, list[int]]] = {
            branch: defaultdict(list) for branch in BRANCHES
        }
        self._known: Counts = dict.fromkeys(BRANCHES, 0)

    def people(self, branch: str, count: int) -> dict[str, int]:
        """Name -> age, the counter left out."""
        self._learn(branch, count)
        found = {}
        for slot, numbers in self._numbers[branch].items():
            position = bisect_right(numbers, count)
            if position and not _operation(branch, numbers[position - 1])[1]:
                found[f"{branch}-{slot}"] = numbers[position - 1]
        return found

    def check_snapshot(self, graph: Graph, snapshot: Snapshot) -> Counts:
        """Read all of it and compare; what it has of every branch."""
        people = read_type(graph.engine, snapshot, "Person", None, None).to_pylist()
        edges = read_type(graph.engine, snapshot, "Knows", None, None).to_pylist()
        ages = {row["name"]: row["age"] for row in people}
        assert len(ages) == len(people), "a person occurs twice"
        counts = {b: ages.pop(counter(b)) for b in BRANCHES if counter(b) in ages}
        wanted = self._all_people(counts)
        assert ages == wanted, _difference(snapshot, ages, wanted)
        known = {row["id"]: (row["src"], row["dst"], row["since"]) for row in edges}
        assert len(known) == len(edges), "an edge occurs twice"
        assert known == dict(_edges(wanted)), _difference(snapshot, known, dict(_edges(wanted)))
        return counts

    def check_hop(self, origin: str, rows: Iterable[Mapping[str, Any]]) -> int | None:
        """One hop from a counter to everybody of its branch; the count, None without a row."""
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

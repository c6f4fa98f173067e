"""Every operation against every other, in both directions, against a model of dicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import MergeConflicts
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph_testing.merge_model import Content, merge_contents, orphans

SCHEMA = """
node Person {
  name: String @key
  age: I64?
  city: String?
}
edge Knows: Person -> Person {
  since: I64?
  note: String?
}
"""


def person(name: str, age: int | None = 1, city: str | None = None) -> tuple:
    return ("Person", name), {"id": name, "name": name, "age": age, "city": city}


def knows(
    name: str, src: str, dst: str, since: int | None = None, note: str | None = None
) -> tuple:
    row = {"id": name, "src": src, "dst": dst, "since": since, "note": note}
    return ("Knows", name), row


BASE: Content = dict(
    [
        person("ada"),
        person("bob", 2),
        person("cy", 3),
        knows("k0", "ada", "bob"),
        knows("k1", "ada", "cy"),
    ]
)

# Each operation: what it writes, and what it deletes; several steps are several commits.
OPERATIONS: dict[str, list[tuple[list, list]]] = {
    "noop": [],
    "add node": [([person("dot", 9)], [])],
    "add node, other values": [([person("dot", 8)], [])],
    "add another node": [([person("eve", 9)], [])],
    "remove node": [([], [("Knows", "k0"), ("Person", "bob")])],
    "add edge to it": [([knows("k2", "cy", "bob")], [])],
    "add parallel edge": [([knows("k3", "cy", "bob")], [])],
    "remove edge": [([], [("Knows", "k0")])],
    "set edge property": [([knows("k0", "ada", "bob", since=4)], [])],
    "move edge": [([knows("k0", "ada", "cy")], [])],
    "set property": [([person("bob", 5)], [])],
    "set property, other value": [([person("bob", 6)], [])],
    "set other property": [([person("bob", 2, "Bern")], [])],
    "set to null": [([person("bob", None)], [])],
    "net zero": [([person("bob", 7)], []), ([person("bob", 2)], [])],
    "remove and add again": [
        ([], [("Knows", "k0"), ("Person", "bob")]),
        ([person("bob", 2), knows("k0", "ada", "bob")], []),
    ],
}


def edits(written: list, deleted: list) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for (type_name, _), row in written:
        found.setdefault(type_name, {}).setdefault("upsert", []).append(row)
    for type_name, entity_id in deleted:
        found.setdefault(type_name, {}).setdefault("delete", []).append(entity_id)
    return found


def after(content: Content, name: str) -> Content:
    changed = dict(content)
    for written, deleted in OPERATIONS[name]:
        changed.update(dict(written))
        for entity in deleted:
            del changed[entity]
    return changed


def held(graph: Graph, branch: str) -> Content:
    return {
        (name, row["id"]): row
        for name in ("Person", "Knows")
        for row in graph.read(name, branch).to_pylist()
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    graph = init(tmp_path_factory.mktemp("matrix") / "g", SCHEMA)
    graph.apply(edits(list(BASE.items()), []))
    for number, name in enumerate(OPERATIONS):
        for side in ("our", "their"):
            graph.branches.create(f"{side}{number}")
            for written, deleted in OPERATIONS[name]:
                graph.apply(edits(written, deleted), f"{side}{number}")
    return graph


@pytest.mark.parametrize("ours", OPERATIONS)
def test_one_operation_against_all_others(world: Graph, ours: str, both_engines: str) -> None:
    names = list(OPERATIONS)
    for theirs in names:
        target = f"{both_engines}{names.index(ours)}-{names.index(theirs)}"
        source = f"their{names.index(theirs)}"
        world.branches.create(target, f"our{names.index(ours)}")
        wanted, conflicts = merge_contents(BASE, after(BASE, ours), after(BASE, theirs), "fail")
        conflicts += orphans(wanted, ("Knows",), "Person")
        before = held(world, target)
        try:
            result = world.merge(source, into=target)
        except MergeConflicts as error:
            found = [(c.entity_id, c.property, c.kind) for c in error.conflicts]
            assert sorted(map(str, found)) == sorted(map(str, _public(conflicts))), (ours, theirs)
            assert held(world, target) == before
            continue
        assert conflicts == [], (ours, theirs)
        assert held(world, target) == wanted, (ours, theirs)
        if not OPERATIONS[theirs]:
            assert result.outcome == "already_up_to_date"
        elif not OPERATIONS[ours]:
            assert result.outcome == "fast_forward"
            assert world.diff(source, target) == []
        else:
            assert result.outcome == "merged"


def _public(conflicts: list) -> list:
    names = {"src": "from", "dst": "to"}
    return [(i, names.get(p, p), kind) for i, p, kind in conflicts]


def test_the_base_fits_the_graph(world: Graph, tmp_path: Path) -> None:
    assert held(world, "main") == BASE

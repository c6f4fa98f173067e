"""Two processes change the same things at the same moment: each race has exactly one outcome."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph_testing import workloads
from omnigraph_testing.crash import start
from omnigraph_testing.invariants import assert_at_rest

pytestmark = pytest.mark.crash

SCHEMA = """
node Person { name: String @key  age: I32?  email: String? @unique }
edge Knows: Person -> Person { note: String? }
"""
ROUNDS = 6


def race(graph: Graph, folder: Path, pairs: list[tuple[str, str]]) -> list[tuple[Any, Any]]:
    """The outcomes of both sides, race by race."""
    folder.mkdir()
    children = [
        start(
            "omnigraph_testing.workloads:mutate_in_step",
            {
                "uri": graph.uri,
                "sources": [f"query q() {{ {pair[side]} }}" for pair in pairs],
                "gates": str(folder),
            },
        )
        for side in (0, 1)
    ]
    for child in children:
        assert child.wait_for_report() == "open"
    outcomes = []
    for number in range(len(pairs)):
        (folder / str(number)).touch()
        outcomes.append(tuple(child.wait_for_report() for child in children))
    for child in children:
        code, _, stderr = child.finish()
        assert code == 0, stderr
    return outcomes


def test_every_race_has_one_outcome(uri: str, tmp_path: Path) -> None:
    graph = init(uri, SCHEMA, settings=workloads.settings())
    everybody = [{"name": f"n{i}"} for i in range(ROUNDS)]
    graph.apply({"Person": {"insert": [*everybody, {"name": "hub", "age": 0}]}})
    same_key = [
        (f'insert Person {{ name: "k{i}", age: 1 }}', f'insert Person {{ name: "k{i}", age: 2 }}')
        for i in range(ROUNDS)
    ]
    edge_or_node = [
        (f'insert Knows {{ from: "n{i}", to: "hub" }}', f'delete Person where name = "n{i}"')
        for i in range(ROUNDS)
    ]
    same_value = [
        (
            f'insert Person {{ name: "a{i}", email: "e{i}" }}',
            f'insert Person {{ name: "b{i}", email: "e{i}" }}',
        )
        for i in range(ROUNDS)
    ]
    more = 'update Person set { age: age + 1 } where name = "hub"'
    pairs = [*same_key, *edge_or_node, *same_value, *[(more, more)] * ROUNDS]
    outcomes = race(graph, tmp_path / "gates", pairs)

    people = {row["name"]: row for row in graph.read("Person").to_pylist()}
    sources = graph.read("Knows").column("src").to_pylist()
    changes = {c.graph_commit_id: n for n, c in enumerate(reversed(graph.commits.list(limit=500)))}
    for i, (one, two) in enumerate(outcomes[:ROUNDS]):
        # Both are upserts: the later commit is what remains.
        order = [changes[one["commit"]], changes[two["commit"]]]
        assert people[f"k{i}"]["age"] == order.index(max(order)) + 1
    for i, (edge, removal) in enumerate(outcomes[ROUNDS : 2 * ROUNDS]):
        # Before the delete the edge goes with its node; afterwards there is no node for it.
        if "commit" in removal:
            assert f"n{i}" not in people
            assert f"n{i}" not in sources
            assert "commit" in edge or edge["error"] == "validation_failed"
        else:
            assert removal["retryable"]
            assert f"n{i}" in people
            assert sources.count(f"n{i}") == ("commit" in edge)
    for i, pair in enumerate(outcomes[2 * ROUNDS : 3 * ROUNDS]):
        assert sorted("commit" in outcome for outcome in pair) == [False, True]
        owners = [name for name, row in people.items() if row["email"] == f"e{i}"]
        assert owners == [f"{'a' if 'commit' in pair[0] else 'b'}{i}"]
    counted = [outcome for pair in outcomes[3 * ROUNDS :] for outcome in pair]
    assert all("commit" in outcome or outcome["retryable"] for outcome in counted)
    assert people["hub"]["age"] == sum("commit" in outcome for outcome in counted)
    committed = [o["commit"] for pair in outcomes for o in pair if "commit" in o]
    assert len(set(committed)) == len(committed)
    assert set(committed) <= set(changes)
    assert graph.verify().ok
    assert_at_rest(graph)

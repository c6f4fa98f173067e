"""Kill -9 at random moments of a process that changes schemas: old or new entirely, never mixed."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph_testing import workloads
from omnigraph_testing.crash import start
from omnigraph_testing.invariants import assert_at_rest, assert_history_readable, content

pytestmark = pytest.mark.crash

NOTE = "node Note { text: String }\n"
KNOWS = "edge Knows: Person -> Person { since: I64? }\n"
FIRST = "node Person { name: String @key  age: I64? }\n" + NOTE + KNOWS

CIRCLE: list[dict[str, Any]] = [
    {"schema": FIRST, "allow_data_loss": True},
    {"schema": FIRST.replace("age: I64?", "age: I64?  city: String?")},
    {
        "schema": FIRST.replace("age: I64?", "age: I64?  city: String?  level: I64").replace(
            "text: String", "text: String  size: I64"
        ),
        "backfill": {"Person.level": 7, "Note.size": 8},
    },
    {
        "schema": "node Person { name: String @key  age: String?  level: I64 }\n"
        + NOTE
        + KNOWS.replace("I64?", "F64?"),
        "allow_data_loss": True,
    },
    {
        "schema": 'node Human @rename_from("Person") '
        '{ name: String @key  years: String? @rename_from("age")  level: I64 }\n'
        'node Memo @rename_from("Note") { text: String }\n'
        "edge Knows: Human -> Human { since: F64? }\n"
    },
    {
        "schema": 'node Person @rename_from("Human") '
        '{ name: String @key  age: I64? @rename_from("years")  level: I64 }\n'
        'node Note @rename_from("Memo") { text: String }\n'
        "edge Knows: Person -> Person { since: I64? }\n"
    },
]
"""Every change leads to the next one, and the last one to the first."""


def contents(graph: Graph, folder: Path) -> list[dict[str, Any]]:
    """The content of the graph after each change, made in a copy without a crash."""
    shutil.copytree(graph.uri, folder)
    copy = open_graph(folder, settings=workloads.settings())
    found = []
    for change in CIRCLE[1:]:
        copy.schema.apply(**change)
        found.append(content(copy))
    copy.schema.apply(**CIRCLE[0])
    found.insert(0, content(copy))
    assert found[0] == content(graph)
    return found


def killed(graph: Graph, uri: str, folder: Path, rounds: int, seed: int) -> int:
    """Kill `rounds` processes at random moments; how many changes were rolled forward."""
    expected, chance = contents(graph, folder), random.Random(seed)
    graph.schema.apply(FIRST)  # the text of the circle
    done, forward = 0, 0
    for _ in range(rounds):
        arguments = {"uri": uri, "circle": CIRCLE, "done": done}
        child = start("omnigraph_testing.workloads:evolve_in_circles", arguments)
        assert child.wait_for_report() == "open"
        time.sleep(chance.uniform(0, 0.25))
        child.kill()
        _, reports, _ = child.finish()
        done = max([done, *(r["done"] for r in reports if "done" in r)])
        begun = max([done, *(r["begun"] for r in reports if "begun" in r)])

        known = {audit.operation_id for audit in graph.recoveries()}
        reopened = open_graph(uri, settings=workloads.settings())
        # A change that was rolled back leaves a commit of the recovery, with the old content.
        head = next(c for c in reopened.commits.list() if c.operation != "recovery")
        audits = [a for a in reopened.recoveries() if a.operation_id not in known]
        found = content(reopened)
        acknowledged = next((r["commit"] for r in reports if r.get("done") == done), None)
        if begun > done and head.message == f"change {begun}":
            done = begun  # it had been published, or it was rolled forward
        elif acknowledged is not None:
            assert head.graph_commit_id == acknowledged
        assert found == expected[done % len(CIRCLE)], f"change {done} of {begun}"
        assert reopened.schema.show().source == CIRCLE[done % len(CIRCLE)]["schema"]
        if done:
            assert (head.actor_id, head.operation) == ("victim", "schema_apply")
            assert head.message == f"change {done}"
        for audit in audits:
            assert audit.recovery_for_actor == "victim"
            if audit.recovery_kind == "rolled_forward":
                assert audit.graph_commit_id == head.graph_commit_id
                forward += 1
        assert_at_rest(reopened)
    last = open_graph(uri, settings=workloads.settings())
    assert_history_readable(last)
    report = last.verify()
    assert report.ok, report
    return forward


def test_a_few_kills(graph: Graph, uri: str, tmp_path: Path) -> None:
    killed(graph, uri, tmp_path / "copy", rounds=6, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(4))
def test_many_kills(graph: Graph, uri: str, tmp_path: Path, seed: int) -> None:
    killed(graph, uri, tmp_path / "copy", rounds=60, seed=seed)

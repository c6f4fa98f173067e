"""Mutations against the bare commit of the same run, on a small and on a large graph.

The bare commit is the write path with one row for one table and nothing to check. Every round does
one of each, so that all see the same machine and the same age.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.harness import Figure, milliseconds, p50, report
from omnigraph.commit.request import WriteRequest
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.values.identifiers import node_table
from omnigraph.writes.changeset import ChangeSet, EditRows

SIZES = {"small": (10_000, 100_000), "full": (10_000, 1_000_000)}
ROUNDS = 60
EDGES_EACH = 5
SCHEMA = """
node Person { name: String @key  age: I64?  city: String? }
node Note { text: String }
edge Knows: Person -> Person @card(0..100) { since: I64? }
edge Wrote: Person -> Note
"""
TEXT = """
query insert($text: String) { insert Note { text: $text } }
query upsert($name: String, $age: I64) { insert Person { name: $name, age: $age } }
query older($name: String) { update Person set { age: coalesce(age, 0) + 1 } where name = $name }
query forget($name: String) { delete Person where name = $name }
query meet($a: String, $b: String) { insert Knows { from: $a, to: $b } }
"""


def run(scale: str) -> None:
    small, large = SIZES[scale]
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        young, old = (make(Path(folder) / str(n), n) for n in (small, large))
        figures = commits(old, large)
        commits(young, small)  # both graphs are equally old when they are compared
        figures += edges(young, old, small, large)
    report("mutation", figures, [f"scale {scale}", f"{large:,} nodes, {EDGES_EACH} edges each"])


def make(folder: Path, people: int) -> Graph:
    graph = init(str(folder), SCHEMA)
    chance = np.random.default_rng(7)
    names = pa.array([f"p{n}" for n in range(people)])
    person = pa.table({"name": names, "age": chance.integers(0, 1000, people)})
    count = people * EDGES_EACH
    knows = pa.table(
        {
            "id": pa.array([f"k{n}" for n in range(count)]),
            "src": names.take(pa.array(np.repeat(np.arange(people), EDGES_EACH))),
            "dst": names.take(pa.array(chance.integers(0, people, count))),
        }
    )
    graph.apply({"Person": {"insert": person}, "Knows": {"insert": knows}})
    graph.apply({"Note": {"insert": [{"text": "first"}]}})
    graph.ensure_indices()
    return graph


def bare(graph: Graph, number: int) -> None:
    """One row for one table through the write path, nothing checked."""
    key = node_table("Note")
    row = pa.table({"id": [f"bare{number}"], "text": ["x"]})
    changes = ChangeSet((EditRows(key, inserts=row),))
    graph.engine.transaction.run(WriteRequest("main", "apply", (key,)), lambda _: changes)


def commits(graph: Graph, people: int) -> list[Figure]:
    def mutate(query: str, /, **params: object) -> None:
        assert graph.mutate(TEXT, query, params).commit is not None

    actions: dict[str, Callable[[int], None]] = {
        "bare": lambda n: bare(graph, n),
        "insert": lambda n: mutate("insert", text=f"t{n}"),
        "upsert": lambda n: mutate("upsert", name=f"p{n * 7}", age=-n - 1),
        "update": lambda n: mutate("older", name=f"p{n * 11 + 1}"),
        "delete": lambda n: mutate("forget", name=f"p{people - 1 - n}"),
    }
    times: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(ROUNDS):
        for name, action in actions.items():
            times[name].append(milliseconds(lambda a=action, n=number: a(n)))
    floor = p50(times["bare"][5:])
    named = {
        "insert": ("one insert, unkeyed", "<= 1.5"),
        "upsert": (f"replace one keyed node of {people:,}", "<= 3"),
        "update": (f"update one keyed node of {people:,}", "<= 1.4"),
        "delete": (f"delete one of {people:,} with its edges", "<= 1.6"),
    }
    return [
        Figure(
            f"{words} / bare commit",
            p50(times[name][5:]),
            floor,
            "ms",
            target,
            against="our own, a bare commit",
        )
        for name, (words, target) in named.items()
    ]


def edges(young: Graph, old: Graph, small: int, large: int) -> list[Figure]:
    """The same statement on graphs of two sizes: building, checks included, and altogether."""
    whole: tuple[list[float], list[float]] = ([], [])
    for number in range(ROUNDS):
        for graph, into in zip((young, old), whole, strict=True):
            params = {"a": f"p{number}", "b": f"p{number + 1000}"}
            into.append(milliseconds(lambda g=graph, p=params: g.mutate(TEXT, "meet", p)))
    words = f"one edge, {large:,} against {small:,} nodes"
    return [
        Figure(
            words,
            p50(whole[1][5:]),
            p50(whole[0][5:]),
            "ms",
            "<= 1.1",
            against=f"our own, {small:,} nodes",
        )
    ]

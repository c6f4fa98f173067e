"""What rules cost: a decision, a hop with a rule about rows, and a graph without rules.

The reference of a rule is the same query with the rule written as a filter by hand.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import omnigraph
from bench import social
from bench.harness import Figure, milliseconds, p50, report
from bench.query import PERSONS, with_ids
from omnigraph.policy.policy import Policy
from omnigraph.settings.models import ReadSettings, Settings

SCHEMA = social.SCHEMA.replace("city: String }", "city: String @index }")
RULES = """
version: 1
groups: {team: [ada], staff: [bob]}
rules:
  - id: team-reads-a-city
    allow:
      actors: {group: team}
      actions: [read]
      where: {Person: 'city != "city 0"'}
  - id: staff-reads
    allow: {actors: {group: staff}, actions: [read]}
"""
HOP = "query q($id: I64) { match { $p: Person { pid: $id } $p knows $f } return { $f.name } }"
BY_HAND = (
    'query q($id: I64) { match { $p: Person { pid: $id } $p.city != "city 0" $p knows $f '
    '$f.city != "city 0" } return { $f.name } }'
)
BIRTHDAY = "query q($id: I64) { update Person set { age: age + 1 } where pid = $id }"
HAND = "the filter written by hand"
DECISIONS = 20_000
ROUNDS = 7
QUERIES = 300
COMMITS = 9
HOPS = 15


def run(scale: str) -> None:
    persons = PERSONS[scale]
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        figures = measured(Path(folder), persons)
    notes = [
        f"{persons:,} persons, {persons * 10:,} friendships; a rule about an indexed property of "
        "both ends; in every second round the reference runs first",
    ]
    report("policy", figures, notes)


def measured(folder: Path, persons: int) -> list[Figure]:
    rules = folder / "rules.yaml"
    rules.write_text(RULES)
    graph = omnigraph.init(str(folder / "graph"), SCHEMA)
    data = social.make(persons)
    graph.load({"Person": data.person, "Knows": with_ids("k", data.knows)}, progress=False)
    graph.optimize()
    policy = Policy.load(rules)
    ruled = graph.as_actor("ada", gate=policy)
    free = graph.as_actor("bob", gate=policy)
    ids = [persons // QUERIES * number for number in range(QUERIES)]

    def hops(handle: omnigraph.Graph, text: str) -> Callable[[], None]:
        def ask() -> None:
            for number in ids:
                handle.query(text, params={"id": number})

        return ask

    with_rule = (hops(ruled, HOP), hops(graph, BY_HAND))
    without_data = (hops(free, HOP), hops(graph, HOP))
    each = [(a / QUERIES, b / QUERIES) for a, b in alternating(with_rule, without_data)]
    fresh = after_commits(graph, (ruled, HOP), (graph, BY_HAND))
    cold = in_new_handles(str(folder / "graph"), policy, ids[:HOPS])
    own = "our own, without a policy"
    return [
        Figure("a decision, warm", decision(policy), float("nan"), "us", "< 5 us", against=""),
        Figure("1 hop with a rule", *each[0], "ms", "<= 1.5", against=HAND),
        Figure("1 hop, first after a commit", *fresh, "ms", "<= 1.5", against=HAND),
        Figure("1 hop, nothing in memory", *cold, "ms", "<= 1.5", against=HAND),
        Figure("1 hop, rules without data", *each[1], "ms", "<= 1.2", against=own),
    ]


def decision(policy: Policy) -> float:
    """Microseconds."""
    began = time.perf_counter()
    for _ in range(DECISIONS):
        policy.decide("ada", "read", "main")
    return (time.perf_counter() - began) / DECISIONS * 1e6


def alternating(*pairs: tuple[Callable[[], None], Callable[[], None]]) -> list[tuple[float, float]]:
    """The times of both actions of each pair.

    Each action is the first of its pair as often as the other one, because the second finds in the
    caches of the processor what the first one read.
    """
    times: list[list[list[float]]] = [[[], []] for _ in pairs]
    for action in (action for pair in pairs for action in pair):
        action()
    for number in range(2 * ROUNDS):
        for pair, found in zip(pairs, times, strict=True):
            for place in (0, 1) if number % 2 else (1, 0):
                found[place].append(milliseconds(pair[place]))
    return [(p50(first), p50(second)) for first, second in times]


def after_commits(
    graph: omnigraph.Graph, *asked: tuple[omnigraph.Graph, str]
) -> tuple[float, float]:
    times: list[list[float]] = [[], []]
    for number in range(COMMITS):
        for place, (handle, text) in enumerate(asked):
            graph.mutate(BIRTHDAY, params={"id": number})
            times[place].append(
                milliseconds(lambda: handle.query(text, params={"id": 7}))  # noqa: B023
            )
    return p50(times[0]), p50(times[1])


def in_new_handles(uri: str, policy: Policy, ids: list[int]) -> tuple[float, float]:
    times: list[list[float]] = [[], []]
    settings = Settings(read=ReadSettings(cache_directory=""))
    for number in ids:
        for place, (gate, text) in enumerate(((policy, HOP), (None, BY_HAND))):
            fresh = omnigraph.open(uri, actor="ada", read_only=True, settings=settings)
            handle = fresh.as_actor("ada", gate=gate)
            times[place].append(milliseconds(lambda: handle.query(text, params={"id": number})))  # noqa: B023
            fresh.close()
    return p50(times[0]), p50(times[1])

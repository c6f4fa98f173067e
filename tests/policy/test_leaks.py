"""No answer and no error has a canary that the rules of its reader hide."""

from __future__ import annotations

import inspect
import itertools
import json
import random
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph.graph.collections import Branches, Commits, Schema, Tags
from omnigraph.graph.handle import Graph
from omnigraph.graph.stored_queries import Queries
from omnigraph.policy.policy import Policy
from omnigraph_testing.http_server import ThreadServer, client_of
from omnigraph_testing.leaks import (
    OPERATIONS,
    QUERIES,
    READER,
    SILENT_METHODS,
    TYPES,
    CanaryGraph,
    LeakContext,
    LeakRules,
    Probe,
    State,
    canaries,
    leaked,
    outcome,
    state_of,
    unlawful,
    without_new,
)


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[CanaryGraph]]:
    """Two graphs, which the examples share: reads do not change them, writes go to a branch."""
    folder = tmp_path_factory.mktemp("canaries")
    made = [CanaryGraph.create(folder / f"g{n}", random.Random(n), commits=3) for n in range(2)]
    yield made
    for graph in made:
        graph.whole.close()


def policy_of(rules: LeakRules, folder: Path) -> Policy:
    file = folder / "policy.yaml"
    file.write_text(rules.yaml())
    return Policy.load(file)


class Work:
    """The branch that writes go to."""

    def __init__(self, graph: CanaryGraph) -> None:
        self._graph = graph.whole
        self._state = state_of(self._graph, "work")
        self._head = self._find_head()

    def _find_head(self) -> str:
        return self._graph.branches.show("work").head_commit_id

    def unlawful(self, rules: LeakRules) -> list[str]:
        """What was changed since the last call against the rules."""
        head = self._find_head()
        if head == self._head:
            return []
        before, self._state, self._head = self._state, state_of(self._graph, "work"), head
        return unlawful(before, self._state, rules)


def some_of(probes: list[Probe], most: int | None, chance: random.Random) -> list[Probe]:
    if most is None or len(probes) <= most:
        return probes
    return chance.sample(probes, most)


def check_everything(graph: CanaryGraph, seed: int, folder: Path, most: int | None = None) -> None:
    rules = LeakRules.random(random.Random(seed))
    reader = graph.whole.as_actor(READER, gate=policy_of(rules, folder))
    check_reader(graph, rules, reader, folder, seed, most)


def check_reader(
    graph: CanaryGraph,
    rules: LeakRules,
    reader: Graph,
    folder: Path,
    seed: int,
    most: int | None = None,
) -> None:
    """Call every method, with at most so many of its arguments, and look at what it tells."""
    graph.chance = chance = random.Random(seed)
    context = LeakContext(reader, graph, folder)
    silent = silent_words(graph, rules)
    check_answers(graph, rules, reader)
    graph.whole.branches.create("work")
    work = Work(graph)
    try:
        for name, probes in OPERATIONS.items():
            for attempt in some_of(list(probes(context)), most, chance):
                text = outcome(attempt)
                found = leaked(text, silent - {*attempt.said})
                assert not found, f"{name} tells {found} under\n{rules.yaml()}\n{text[:3000]}"
                wrong = work.unlawful(rules)
                assert not wrong, f"{name}: {wrong} under\n{rules.yaml()}"
    finally:
        graph.whole.branches.delete("work")
        for branch in graph.whole.branches.list():
            if branch.name.startswith("mine"):
                graph.whole.branches.delete(branch.name)
        for tag in graph.whole.tags.list():
            if tag.name.startswith("mine"):
                graph.whole.tags.delete(tag.name)


def check_answers(graph: CanaryGraph, rules: LeakRules, reader: Graph) -> None:
    """Reads, exports, differences and the feed are those of the filtered graph."""
    states = {commit: rules.visible(state) for commit, state in graph.states.items()}
    commits = list(states)
    for commit, state in states.items():
        for name, rows in state.items():
            found = {row["id"]: row for row in reader.read(name, at=commit).to_pylist()}
            assert {i: without_new(row) for i, row in found.items()} == rows
    for a, b in [*itertools.pairwise(commits), (commits[0], commits[-1])]:
        assert _changes(reader.diff(a, b)) == _expected(states[a], states[b])
    page = reader.changes(start="beginning")
    found = {block.commit.graph_commit_id: _changes(block.changes) for block in page.blocks}
    while page.has_more:
        page = reader.changes(cursor=page.cursor)
        assert not page.blocks
    wanted = {b: _expected(states[a], states[b]) for a, b in itertools.pairwise(commits)}
    assert {k: v for k, v in found.items() if v} == {k: v for k, v in wanted.items() if v}
    (block,) = reader.baseline().blocks
    empty: Any = {name: {} for name in TYPES}
    assert _changes(block.changes) == _expected(empty, states[commits[-1]])


def _changes(changes: Any) -> dict[tuple[str, str], tuple[str, tuple[str, ...]]]:
    return {(c.type.name, c.id): (c.op, c.changed_properties) for c in changes}


def _expected(before: State, after: State) -> dict[tuple[str, str], tuple[str, tuple[str, ...]]]:
    found = {}
    for name in after:
        old, new = before.get(name, {}), after[name]
        for entity in {*old, *new}:
            was, now = old.get(entity), new.get(entity)
            if was == now:
                continue
            op = "insert" if was is None else "delete" if now is None else "update"
            names = [] if was is None or now is None else [n for n in now if was[n] != now[n]]
            found[name, entity] = op, tuple(names)
    return found


@settings(max_examples=2, deadline=None, phases=[Phase.generate])
@given(seed=st.integers(0, 2**32))
def test_no_operation_tells_a_canary(
    graphs: list[CanaryGraph], tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    check_everything(graphs[seed % 2], seed, tmp_path_factory.mktemp("leaks"), most=4)


@pytest.fixture(scope="module")
def served(
    graphs: list[CanaryGraph], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[LeakRules, str]]:
    """The first graph on a server, and what a reader sees of it there."""
    rules = LeakRules.random(random.Random(4))
    folder = tmp_path_factory.mktemp("served")
    file = folder / "policy.yaml"
    file.write_text(rules.yaml())
    tokens = json.dumps({READER: "t-reader"})
    address = graphs[0].whole.uri
    with ThreadServer(address, tokens=tokens, policies=(("default", str(file)),)) as server:
        yield rules, f"{server.url}/graphs/default"


def test_no_operation_tells_a_canary_over_http(
    graphs: list[CanaryGraph],
    served: tuple[LeakRules, str],
    tmp_path: Path,
) -> None:
    rules, url = served
    with omnigraph.open(url, token="t-reader") as reader:
        check_reader(graphs[0], rules, reader, tmp_path, seed=4, most=3)


GETS = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text())["paths"]
POSTS: list[tuple[str, dict[str, Any]]] = [
    ("/export", {}),
    ("/export", {"snapshot": "middle"}),
    ("/changes/baseline", {}),
    ("/changes/baseline", {"branch": "side"}),
    *(("/entities", {"type": name, "sorted": True}) for name in TYPES),
    *(("/query", {"query": text}) for text in QUERIES),
    ("/branches/merge", {"source": "side", "target": "main", "preview": True}),
    ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
    ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "resources/list"}),
]
SPOOFED = {
    "x-actor": "root",
    "x-omnigraph-actor": "root",
    "from": "root",
    "x-forwarded-user": "root",
}


def _gets(commits: list[str], person: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Every route of a graph that is read, with parameters of all of them."""
    for route in (path for path, methods in GETS.items() if "get" in methods):
        _, of_a_graph, rest = route.partition("/graphs/{graph_id}")
        if not of_a_graph:
            continue
        for commit in commits if "{commit_id}" in rest else commits[:1]:
            place = rest.replace("{commit_id}", commit).replace("{operation_id}", "x")
            asked = {"actor": "root", "start": "beginning", "from": commit, "to": "main"}
            asked |= {"kind": "node", "type": "Person", "id": person, "property": "photo"}
            yield from ((place, q) for q in ({}, {"actor": "root"}, {"start": "beginning"}, asked))


def test_no_body_and_no_header_tells_a_canary(
    graphs: list[CanaryGraph], served: tuple[LeakRules, str]
) -> None:
    """Whole answers of routes, with headers and parameters that pretend to be another actor."""
    graph, (rules, url) = graphs[0], served
    silent = silent_words(graph, rules)
    commits = [*graph.states, graph.side]
    person = sorted(graph.last["Person"])[0]
    with client_of(url, "t-reader", headers=SPOOFED) as http:
        answers = [http.get(place, params=query) for place, query in _gets(commits, person)]
        answers += [http.post(route, json=body) for route, body in POSTS]
        answers += [http.post(r, json={**b, "actor": "root"}) for r, b in POSTS[:3]]
    assert sum(answer.status_code == 200 for answer in answers) > 60
    for answer in answers:
        said = {*re.findall(r"\w+", f"{answer.request.url} {answer.request.content.decode()}")}
        said |= {word.capitalize() for word in said}
        text = f"{answer.headers} {answer.content.decode(errors='replace')}"
        found = leaked(text, silent - said)
        assert not found, (answer.request.url, found, rules.yaml(), text[:2000])


@pytest.mark.slow
def test_no_operation_tells_a_canary_over_http_at_length(
    graphs: list[CanaryGraph],
    served: tuple[LeakRules, str],
    tmp_path: Path,
) -> None:
    rules, url = served
    with omnigraph.open(url, token="t-reader") as reader:
        check_reader(graphs[0], rules, reader, tmp_path, seed=5)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=12, deadline=None, phases=[Phase.generate])
@given(seed=st.integers(0, 2**32))
def test_no_operation_tells_a_canary_at_length(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """Every operation with every argument, on a new graph each time.

    One example takes about 10 s of CPU, most of it Lance's: a feed of one commit is some ten small
    reads. There is no shrinking, because a smaller seed is no simpler graph.
    """
    folder = tmp_path_factory.mktemp("long")
    graph = CanaryGraph.create(folder / "g", random.Random(seed), commits=4)
    try:
        check_everything(graph, seed, folder)
    finally:
        graph.whole.close()


def test_stored_queries_tell_no_canary(graphs: list[CanaryGraph], tmp_path: Path) -> None:
    graph = graphs[1]
    (tmp_path / "q").mkdir()
    for number, text in enumerate(QUERIES):
        named = f"query q{number}() {{ {text} }}\n"
        (tmp_path / "q" / f"q{number}.gq").write_text(named)
    (tmp_path / "q" / "w.gq").write_text("query w() { delete Vault where worth > 0 }\n")
    for seed in range(3):
        rules = LeakRules.random(random.Random(seed))
        policy = policy_of(rules, tmp_path)
        silent = silent_words(graph, rules)
        opened = omnigraph.open(
            graph.whole.uri, actor=READER, policy=policy, queries=tmp_path / "q", read_only=True
        )
        with opened as reader:
            calls = [partial(reader.queries.run, f"q{n}") for n in range(len(QUERIES))]
            calls += [reader.queries.list, reader.queries.validate]
            calls += [partial(reader.queries.run, "w"), partial(reader.queries.run, "absent")]
            for call in calls:
                found = leaked(outcome(Probe(call)), silent)
                assert not found, (call, rules.yaml())


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_no_query_on_spark_tells_a_canary(
    graphs: list[CanaryGraph], tmp_path: Path, spark: Any
) -> None:
    graph = graphs[1]
    for seed in range(3):
        rules = LeakRules.random(random.Random(seed))
        reader = graph.whole.as_actor(READER, gate=policy_of(rules, tmp_path))
        silent = silent_words(graph, rules)
        for text in QUERIES:
            said = {*re.findall(r"\w+", text)}
            told = outcome(Probe(partial(reader.query, text, engine="spark")))
            found = leaked(told, silent - said - {word.capitalize() for word in said})
            assert not found, (text, rules.yaml(), told)
        target = tmp_path / f"out{seed}"
        told = outcome(Probe(partial(exported, reader, target)))
        assert not leaked(told, silent), rules.yaml()


def exported(reader: Graph, target: Path) -> object:
    return reader.export(target, engine="spark"), target


def silent_words(graph: CanaryGraph, rules: LeakRules) -> set[str]:
    """The canaries and names that the rules show in no state."""
    shown = canaries(rules.visible(state) for state in graph.all_states)
    return (canaries(graph.all_states) - shown) | rules.silent_names


def test_every_method_is_called_or_is_silent() -> None:
    kinds = {"Graph": Graph, "Branches": Branches, "Tags": Tags, "Commits": Commits}
    kinds |= {"Schema": Schema, "Queries": Queries}
    methods = {
        f"{name}.{member}"
        for name, kind in kinds.items()
        for member, value in inspect.getmembers(kind, inspect.isfunction)
        if not member.startswith("_")
    }
    assert methods == {*OPERATIONS, *SILENT_METHODS}


def test_the_rules_hide_canaries_and_the_check_finds_them(graphs: list[CanaryGraph]) -> None:
    graph = graphs[0]
    rules = LeakRules.random(random.Random(3))
    silent = silent_words(graph, rules)
    assert len(silent) > 20
    context = LeakContext(graph.whole, graph, Path("/nowhere"))
    told = [outcome(a) for a in OPERATIONS["Graph.read"](context)]
    assert any(leaked(text, silent) for text in told)
    assert json.dumps(rules.yaml())

"""Random schemas and mutations against a model in plain Python: content, counts, verdict."""

from __future__ import annotations

import copy
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph.errors import KeyConflict, ValidationFailed
from omnigraph_testing.invariants import assert_at_rest, content

State = dict[str, dict[str, dict[str, Any]]]
Predicate = tuple[Any, ...]


class Rejected(Exception):
    """The model refuses the mutation."""


@dataclass(frozen=True)
class Shape:
    """A schema: nodes A (keyed by `k`) and B (given ids), an edge E between them or on A."""

    unique: bool
    limit: int | None
    target: str
    low: int
    high: int | None
    parallel: bool

    @property
    def text(self) -> str:
        node = "\n".join(
            [
                "  n: I64?",
                "  t: String?",
                "  @unique(t)" if self.unique else "",
                f"  @range(n, ..{self.limit})" if self.limit is not None else "",
            ]
        )
        high = "" if self.high is None else self.high
        no_parallel = "" if self.parallel else "@unique(src, dst)"
        return (
            f"node A {{ k: String @key\n{node} }}\nnode B {{\n{node} }}\n"
            f"edge E: A -> {self.target} @card({self.low}..{high}) {{ n: I64? {no_parallel} }}"
        )


@dataclass(frozen=True)
class Insert:
    type: str
    id: str
    values: tuple[tuple[str, Any], ...]
    skip: bool = False

    def text(self) -> str:
        first = "k" if self.type == "A" else "id"
        values = [(first, self.id), *self.values]
        inner = ", ".join(f"{name}: {literal(value)}" for name, value in values)
        return f"insert {self.type} {{ {inner} }}" + (" on match skip" if self.skip else "")


@dataclass(frozen=True)
class Update:
    type: str
    name: str
    value: Any
    where: Predicate

    def text(self) -> str:
        value = f"n + {self.value[1]}" if isinstance(self.value, tuple) else literal(self.value)
        return f"update {self.type} set {{ {self.name}: {value} }} where {spelled(self.where)}"


@dataclass(frozen=True)
class Delete:
    type: str
    where: Predicate

    def text(self) -> str:
        return f"delete {self.type} where {spelled(self.where)}"


def literal(value: Any) -> str:
    return "null" if value is None else f'"{value}"' if isinstance(value, str) else str(value)


def spelled(p: Predicate) -> str:
    match p:
        case ("null", name):
            return f"{name} is null"
        case ("not", inner):
            return f"not ({spelled(inner)})"
        case (("and" | "or") as word, left, right):
            return f"({spelled(left)} {word} {spelled(right)})"
        case ("in", name, values):
            return f"{name} in [{', '.join(map(literal, values))}]"
        case (operator, name, value):
            return f"{name} {operator} {literal(value)}"
    raise AssertionError(p)


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    "!=": lambda a, b: a != b,
}


def true_of(p: Predicate, row: dict[str, Any]) -> bool | None:
    match p:
        case ("null", name):
            return row[name] is None
        case ("not", inner):
            found = true_of(inner, row)
            return None if found is None else not found
        case ("and", left, right):
            sides = {true_of(left, row), true_of(right, row)}
            return False if False in sides else None if None in sides else True
        case ("or", left, right):
            sides = {true_of(left, row), true_of(right, row)}
            return True if True in sides else None if None in sides else False
        case ("in", name, values):
            return None if row[name] is None else row[name] in values
        case (operator, name, value):
            return None if row[name] is None else _COMPARE[operator](row[name], value)
    raise AssertionError(p)


def run(shape: Shape, state: State, statements: list[Any]) -> State:
    """The state after all statements, or `Rejected`."""
    after = copy.deepcopy(state)
    inserted: set[tuple[str, str]] = set()
    for statement in statements:
        rows = after[statement.type]
        match statement:
            case Insert(kind, identity, values, skip):
                if identity in rows and skip:
                    continue
                if kind != "A" and identity in rows:
                    raise Rejected
                inserted.add((kind, identity))
                blank = {"n": None, "t": None, "k": identity, "from": None, "to": None}
                rows[identity] = blank | {"id": identity} | dict(values)
            case Update(_, name, value, where):
                for row in [r for r in rows.values() if true_of(where, r) is True]:
                    if isinstance(value, tuple):
                        row[name] = None if row["n"] is None else row["n"] + value[1]
                    else:
                        row[name] = value
            case Delete(kind, where):
                gone = [i for i, r in rows.items() if true_of(where, r) is True]
                for identity in gone:
                    del rows[identity]
                cascade(shape, after, kind, set(gone))
    judge(shape, state, after)
    return after


def cascade(shape: Shape, state: State, kind: str, gone: set[str]) -> None:
    for identity, edge in list(state["E"].items()):
        starts = kind == "A" and edge["from"] in gone
        if starts or (kind == shape.target and edge["to"] in gone):
            del state["E"][identity]


def judge(shape: Shape, before: State, after: State) -> None:
    for kind in ("A", "B"):
        values = Counter(r["t"] for r in after[kind].values() if r["t"] is not None)
        if shape.unique and any(count > 1 for count in values.values()):
            raise Rejected
        if shape.limit is not None and any(
            (r["n"] or 0) > shape.limit for r in after[kind].values()
        ):
            raise Rejected
    edges = after["E"].values()
    if any(e["from"] not in after["A"] or e["to"] not in after[shape.target] for e in edges):
        raise Rejected
    pairs = Counter((e["from"], e["to"]) for e in edges)
    if not shape.parallel and any(count > 1 for count in pairs.values()):
        raise Rejected
    per_source = Counter(e["from"] for e in edges)
    for source in after["A"]:
        count = per_source[source]
        if count < shape.low or (shape.high is not None and count > shape.high):
            raise Rejected


def changed(before: State, after: State, kind: str) -> int:
    keys = before[kind].keys() | after[kind].keys()
    return sum(before[kind].get(i) != after[kind].get(i) for i in keys)


# --- what is tried

IDS = st.sampled_from(["a", "b", "c", "it's"])
NUMBERS = st.one_of(st.none(), st.integers(-3, 6))
TEXTS = st.one_of(st.none(), st.sampled_from(["x", "y", "%"]))
SHAPES = st.builds(
    Shape,
    unique=st.booleans(),
    limit=st.one_of(st.none(), st.just(5)),
    target=st.sampled_from(["A", "B"]),
    low=st.sampled_from([0, 0, 1]),
    high=st.sampled_from([None, 1, 2]),
    parallel=st.booleans(),
)


def predicates(kind: str) -> st.SearchStrategy[Predicate]:
    plain = st.one_of(
        st.tuples(st.sampled_from(["=", "<", ">=", "!="]), st.just("n"), st.integers(-3, 6)),
        st.just(("null", "n")),
        st.tuples(st.just("in"), st.just("n"), st.lists(st.integers(0, 3), min_size=1, max_size=2)),
        st.tuples(st.just("="), st.just("id"), IDS),
        st.tuples(st.just("in"), st.just("id"), st.lists(IDS, min_size=1, max_size=3)),
        *{
            "A": [st.tuples(st.just("="), st.just("k"), IDS), st.just(("null", "t"))],
            "B": [st.tuples(st.just("="), st.just("t"), st.sampled_from(["x", "%"]))],
            "E": [st.tuples(st.sampled_from(["=", "!="]), st.sampled_from(["from", "to"]), IDS)],
        }[kind],
    )
    return st.recursive(
        plain,
        lambda p: st.one_of(
            st.tuples(st.just("not"), p), st.tuples(st.sampled_from(["and", "or"]), p, p)
        ),
        max_leaves=3,
    )


def inserts() -> st.SearchStrategy[Insert]:
    node = st.tuples(st.tuples(st.just("n"), NUMBERS), st.tuples(st.just("t"), TEXTS))
    edge = st.tuples(
        st.tuples(st.just("from"), IDS),
        st.tuples(st.just("to"), IDS),
        st.tuples(st.just("n"), NUMBERS),
    )
    return st.one_of(
        st.builds(Insert, st.sampled_from(["A", "B"]), IDS, node, st.booleans()),
        st.builds(Insert, st.just("E"), IDS, edge, st.booleans()),
    )


def updates() -> st.SearchStrategy[Update]:
    number = st.one_of(NUMBERS, st.tuples(st.just("+"), st.integers(0, 3)))

    def of(kind: str) -> st.SearchStrategy[Update]:
        sets = [st.tuples(st.just("n"), number)]
        if kind != "E":
            sets.append(st.tuples(st.just("t"), TEXTS))
        return st.tuples(st.one_of(*sets), predicates(kind)).map(
            lambda found: Update(kind, found[0][0], found[0][1], found[1])
        )

    return st.sampled_from("ABE").flatmap(of)


DELETES = st.sampled_from("ABE").flatmap(
    lambda kind: st.builds(Delete, st.just(kind), predicates(kind))
)
MUTATIONS = st.lists(
    st.one_of(
        st.lists(st.one_of(inserts(), inserts(), updates()), min_size=1, max_size=5),
        st.lists(DELETES, min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=6,
)


def same(shape: Shape, mutations: list[list[Any]]) -> None:
    state: State = {"A": {}, "B": {}, "E": {}}
    with tempfile.TemporaryDirectory() as folder:
        graph = omnigraph.init(Path(folder) / "g.omni", shape.text)
        for statements in mutations:
            source = "query q() { " + "\n".join(s.text() for s in statements) + " }"
            try:
                after = run(shape, state, statements)
            except Rejected:
                with pytest.raises((ValidationFailed, KeyConflict)):
                    graph.mutate(source)
            else:
                receipt = graph.mutate(source)
                nodes = changed(state, after, "A") + changed(state, after, "B")
                edges = changed(state, after, "E")
                assert (receipt.affected_nodes, receipt.affected_edges) == (nodes, edges), source
                assert (receipt.commit is None) == (nodes + edges == 0)
                state = after
            assert stored(graph) == state, source
        assert_at_rest(graph)


def stored(graph: omnigraph.Graph) -> State:
    found = content(graph)
    state: State = {"A": {}, "B": {}, "E": {}}
    for kind, rows in found.items():
        for identity, row in rows.items():
            state[kind][identity] = {
                "id": identity,
                "k": identity,
                "n": row["n"],
                "t": row.get("t"),
                "from": row.get("src"),
                "to": row.get("dst"),
            }
    return state


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(SHAPES, MUTATIONS)
def test_mutations_do_what_the_model_does(shape: Shape, mutations: list[list[Any]]) -> None:
    same(shape, mutations)


@pytest.mark.slow
@settings(max_examples=600, suppress_health_check=list(HealthCheck))
@given(SHAPES.map(lambda s: replace(s, low=0)), MUTATIONS)
def test_mutations_do_what_the_model_does_at_length(
    shape: Shape, mutations: list[list[Any]]
) -> None:
    same(shape, mutations)

"""Integers at and beyond the bounds of a column: writes find the rows that reads find."""

from __future__ import annotations

import operator
from itertools import count
from pathlib import Path

import pytest

import omnigraph
from omnigraph.graph.handle import Graph
from omnigraph.values.scalars import INTEGER_BOUNDS

SIGNS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
KINDS = {kind.value: bounds for kind, bounds in INTEGER_BOUNDS.items()}
LITERALS = (-(2**63), -1, 2**31, 2**32, 2**63, 2**64 - 1)
MARKS = count(1)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    text = "".join(f"  v{kind}: {kind}?\n" for kind in KINDS)
    folder: Path = tmp_path_factory.mktemp("bounds")
    graph = omnigraph.init(folder / "g.omni", f"node N {{ k: String @key\n{text}  n: I64? }}")
    rows = [
        {"k": f"{kind}{value}", f"v{kind}": value}
        for kind, (low, high) in KINDS.items()
        for value in (low, 1, high)
    ]
    graph.apply({"N": {"insert": rows}})
    return graph


def touched(graph: Graph, condition: str) -> set[str]:
    """What an update changes; every update leaves a mark of its own."""
    mark = next(MARKS)
    graph.mutate(f"query m() {{ update N set {{ n: {mark} }} where {condition} }}")
    rows = graph.read("N", columns=["k", "n"]).to_pylist()
    return {row["k"] for row in rows if row["n"] == mark}


def stored(kind: str) -> dict[str, int]:
    low, high = KINDS[kind]
    return {f"{kind}{value}": value for value in (low, 1, high)}


@pytest.mark.parametrize("kind", KINDS)
def test_comparisons(graph: Graph, kind: str) -> None:
    property_name = f"v{kind}"
    for sign, holds in SIGNS.items():
        for literal in LITERALS:
            expected = {k for k, value in stored(kind).items() if holds(value, literal)}
            condition = f"{property_name} {sign} {literal}"
            assert touched(graph, condition) == expected, condition


@pytest.mark.parametrize("kind", KINDS)
def test_lists_and_reads(graph: Graph, kind: str) -> None:
    low, high = KINDS[kind]
    beyond = high + 1 if high < 2**64 - 1 else low
    for listed in ([1, -1], [low, high], [1, beyond]):
        if any(n < 0 for n in listed) and any(n >= 2**63 for n in listed):
            continue  # no type holds both
        condition = f"v{kind} in [{', '.join(map(str, listed))}]"
        expected = {k for k, value in stored(kind).items() if value in listed}
        assert touched(graph, condition) == expected, condition
        found = graph.query(f"query q() {{ match {{ $n: N $n.{condition} }} return {{ $n.k }} }}")
        assert {row["n.k"] for row in found.to_pylist()} == expected, condition

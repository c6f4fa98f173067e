"""Numbers at their limits: a value, or an error of ours that says why there is none."""

from __future__ import annotations

from typing import Any

import pytest

from omnigraph.errors import InvalidArgument
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    folder = tmp_path_factory.mktemp("limits")
    graph = init(folder / "g.omni", "node N { k: String @key  i: I64?  u: U64?  f: F64?  d: I32? }")
    graph.apply({"N": {"insert": [{"k": "x", "i": -1, "u": 2**64 - 1, "f": 1.25, "d": 1}]}})
    return graph


def value_of(graph: Graph, expression: str) -> Any:
    text = f"query q() {{ match {{ $n: N }} return {{ {expression} as v }} }}"
    (row,) = graph.query(text).to_pylist()
    return row["v"]


@pytest.mark.parametrize(
    "expression",
    [
        "$n.i + $n.u",
        "$n.u - $n.i",
        "$n.i % $n.u",
        "coalesce($n.i, $n.u)",
        "round($n.f, 9223372036854775807)",
        "round($n.f, $n.u)",
    ],
)
def test_what_no_type_holds_is_an_error_of_ours(graph: Graph, expression: str) -> None:
    with pytest.raises(InvalidArgument):
        value_of(graph, expression)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("round($n.f, $n.d)", 1.3),
        ("round($n.i, 18446744073709551615)", -1),
        ("[$n.f, $n.u]", [1.25, 2.0**64]),
        ("$n.f in [$n.f, $n.u]", True),
    ],
)
def test_what_has_a_value(graph: Graph, expression: str, value: Any) -> None:
    assert value_of(graph, expression) == value

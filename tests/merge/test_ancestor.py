"""Merges after a criss-cross: several best common ancestors."""

from __future__ import annotations

import pytest
from merge_steps import ages, set_age

from omnigraph.graph.handle import Graph

pytestmark = pytest.mark.usefixtures("both_engines")


def test_criss_cross_uses_the_merged_ancestors(graph: Graph) -> None:
    graph.branches.create("r")
    set_age(graph, "main", "ada", 10)
    set_age(graph, "r", "bob", 20)
    graph.branches.create("main0")
    graph.branches.create("r0", "r")
    graph.merge("r0", into="main")
    graph.merge("main0", into="r")
    set_age(graph, "main", "ada", 11)
    set_age(graph, "r", "bob", 1)  # against either ancestor alone this would look undone
    assert graph.merge("r", into="main").outcome == "merged"
    assert ages(graph) == {"ada": 11, "bob": 1}


def test_three_ancestors_that_saw_one_line_at_different_times(graph: Graph) -> None:
    """Each has one more commit of the line: together they know its newest, and nothing disputes."""
    graph.branches.create("line")
    sides = ("s", "t")
    for name in (*sides, "x", "y", "z"):
        graph.branches.create(name)
    for number, name in enumerate(("x", "y", "z")):
        set_age(graph, "line", "ada", 10 + number)
        graph.merge("line", into=name)
        set_age(graph, name, f"only on {name}", 1)
    for side in sides:
        for name in ("x", "y", "z"):
            graph.merge(name, into=side)
    set_age(graph, "s", "ada", 99)
    set_age(graph, "t", "bob", 98)
    assert graph.merge("s", into="t").outcome == "merged"
    merged = ages(graph, "t")
    assert (merged["ada"], merged["bob"]) == (99, 98)

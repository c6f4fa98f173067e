"""What the rules make of a plan, as text."""

from __future__ import annotations

import pytest

from omnigraph.plan.plan_text import plan_lines
from omnigraph.plan.planner import plan_read
from omnigraph.query.compiler import compile_query
from omnigraph.schema.build import catalog_from_text

CATALOG = catalog_from_text(
    """
    node Person { name: String @key  age: I32? }
    node Company { name: String @key }
    edge Knows: Person -> Person { since: I32? }
    edge WorksAt: Person -> Company
    """
)

CASES = {
    "paths of two hops are counted from the middle": (
        "match { $p: Person $p knows $m $m knows $f } return { count($f) as n }",
        """
        NodeScan $m#1: Person
        Count Expand $m#1 -Knows:in-> $p#0: Person (edges are counted, not followed)
        Count Expand $m#1 -Knows:out-> $f#2: Person (edges are counted, not followed)
        Aggregate n = count(*)
        Project n = [n]
        """,
    ),
    "a degree per person": (
        "match { $p: Person $p knows $f } return { $p.name, count($f) as n }",
        """
        NodeScan $p#0: Person
        Count Expand $p#0 -Knows:out-> $f#1: Person (edges are counted, not followed)
        Aggregate n = count(*) by p.name = $p#0.name
        OrderBy ties [p.name]
        Project p.name = [p.name], n = [n]
        """,
    ),
    "an end that is asked for is followed": (
        "match { $p: Person $p knows $f } return { max($f.age) as n, count($p) as c }",
        """
        NodeScan $f#1: Person
        Count Expand $f#1 -Knows:in-> $p#0: Person (edges are counted, not followed)
        Aggregate n = max($f#1.age), c = count(*)
        Project n = [n], c = [c]
        """,
    ),
    "a filter on the start keeps the start": (
        "match { $p: Person $p.age > 3 $p knows $m $m knows $f } return { count($f) as n }",
        """
        NodeScan $p#0: Person
        Filter ($p#0.age > 3)
        Expand $p#0 -Knows:out-> $m#1: Person
        Keep #1
        Count Expand $m#1 -Knows:out-> $f#2: Person (edges are counted, not followed)
        Aggregate n = count(*)
        Project n = [n]
        """,
    ),
    "distinct ends thin every hop": (
        "match { $p: Person $p knows $m $m knows $f } return { count(distinct $f) as n }",
        """
        NodeScan $p#0: Person
        Expand $p#0 -Knows:out-> $m#1: Person
        Keep #1, #2
        DistinctOn #1 (only the set matters above)
        Expand $m#1 -Knows:out-> $f#2: Person
        Keep #2
        DistinctOn #2 (only the set matters above)
        Aggregate n = count(distinct $f#2)
        Project n = [n]
        """,
    ),
    "collect needs every row": (
        "match { $p: Person $p knows $f } return { collect($f.name) as n }",
        """
        NodeScan $p#0: Person
        Expand $p#0 -Knows:out-> $f#1: Person
        Keep #0, #1
        OrderBy ties $p#0.id, $f#1.id
        Aggregate n = collect($f#1.name)
        Project n = [n]
        """,
    ),
    "an optional end is counted by what is bound": (
        "match { $p: Person optional { $p knows $f } } return { count($f) as n }",
        """
        NodeScan $p#0: Person
        Optional $f#1
          Rows $p#0
          Expand $p#0 -Knows:out-> $f#1: Person
        Aggregate n = count($f#1)
        Project n = [n]
        """,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_plan(name: str) -> None:
    body, wanted = CASES[name]
    compiled = compile_query(f"query q() {{ {body} }}", CATALOG)
    assert compiled.plan is not None
    lines = [line for _, line in plan_lines(plan_read(compiled.plan))]
    expected = [line.removeprefix("        ") for line in wanted.strip("\n").splitlines()]
    assert lines == [line for line in expected if line.strip()]

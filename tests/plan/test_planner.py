"""What the rules make of a plan, as text."""

from __future__ import annotations

import pytest

from omnigraph.plan.estimates import Statistics
from omnigraph.plan.plan_text import explained, plan_lines
from omnigraph.plan.planner import plan_read
from omnigraph.query.compiler import compile_query
from omnigraph.schema.build import catalog_from_text
from omnigraph.values.identifiers import edge_table, node_table

CATALOG = catalog_from_text(
    """
    node Person { name: String @key  age: I32? }
    node Company { name: String @key }
    edge Knows: Person -> Person { since: I32? }
    edge WorksAt: Person -> Company
    """
)

STATISTICS = Statistics(
    CATALOG,
    {
        node_table("Person"): 2**20,
        node_table("Company"): 2**16,
        edge_table("Knows"): 2**23,
        edge_table("WorksAt"): 2**20,
    },
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
    "nodes between two others are counted, and the shorter way is followed": (
        "match { $p: Person $p knows $f $p worksAt $c $f worksAt $c } return { count($c) as n }",
        """
        NodeScan $p#0: Person
        Expand $p#0 -WorksAt:out-> $c#2: Company
        Keep #0, #2
        Count Expand $p#0 -Knows:out-> $f#1: Person, Expand $f#1 -WorksAt:out-> $c#2: Company \
bound (nodes in between are counted, not followed)
        Aggregate n = count(*)
        Project n = [n]
        """,
    ),
    "a node between two others that is asked for is followed": (
        "match { $p: Person $p knows $f $f knows $p } return { max($f.age) as n }",
        """
        NodeScan $p#0: Person
        Expand $p#0 -Knows:out-> $f#1: Person
        Keep #0, #1
        Expand $f#1 -Knows:out-> $p#0: Person bound
        Keep #1
        DistinctOn #1 (only the set matters above)
        Aggregate n = max($f#1.age)
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
        NodeScan $p#0: Person where ($p#0.age > 3)
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
    "a key is looked up, and the walk begins there": (
        'match { $p: Person $p knows $f $f.name = "Ada" } return { $p.name }',
        """
        LookUp $f#1: Person by $f#1.name = "Ada"
        Expand $f#1 -Knows:in-> $p#0: Person
        Keep #0, #1
        OrderBy ties $p#0.id, $f#1.id
        Project p.name = $p#0.name
        """,
    ),
    "a list of keys is a few lookups": (
        'match { $p: Person $p.name in ["Ada", "Bob"] $p.age > 3 } return { $p.age }',
        """
        LookUp $p#0: Person by $p#0.name in ["Ada", "Bob"] where ($p#0.age > 3)
        OrderBy ties $p#0.id
        Project p.age = $p#0.age
        """,
    ),
    "a value of another row is a join on the id": (
        "match { $p: Person $c: Company $c.name = $p.name } return { $c.name }",
        """
        NodeScan $p#0: Person
        LookUp $c#1: Company by $c#1.name = $p#0.name
        OrderBy ties $p#0.id, $c#1.id
        Project c.name = $c#1.name
        """,
    ),
    "edges and ends are judged while followed": (
        "match { $p: Person $p.age > 9 $p $k:knows $f $k.since > 3 $f.age > 5 } return { $p.name }",
        """
        NodeScan $p#0: Person where ($p#0.age > 9)
        Expand $p#0 -Knows:out-> $f#2: Person edge $k#1 where ($k#1.since > 3) and ($f#2.age > 5)
        Keep #0, #1, #2
        OrderBy ties $p#0.id, $k#1.id, $f#2.id
        Project p.name = $p#0.name
        """,
    ),
    "what may fail is asked last": (
        'match { $p: Person $p.age / 0 = 1 $p knows $f $f.name = "Ada" } return { $f.age }',
        """
        LookUp $f#1: Person by $f#1.name = "Ada"
        Expand $f#1 -Knows:in-> $p#0: Person
        Keep #0, #1
        Filter (($p#0.age / 0) = 1)
        OrderBy ties $p#0.id, $f#1.id
        Project f.age = $f#1.age
        """,
    ),
    "a filter on a group key is a filter on rows": (
        "match { $p: Person } return { $p.age as a, count($p) as n } where a > 3",
        """
        NodeScan $p#0: Person where ($p#0.age > 3)
        Aggregate n = count(*) by a = $p#0.age
        OrderBy ties [a]
        Project a = [a], n = [n]
        """,
    ),
    "a sub-pattern is put in order too": (
        'match { $p: Person not { $p worksAt $c $c.name = "X" } } return { $p.name }',
        """
        NodeScan $p#0: Person
        AntiJoin
          Rows $p#0
          Expand $p#0 -WorksAt:out-> $c#1: Company where ($c#1.name = "X")
        OrderBy ties $p#0.id
        Project p.name = $p#0.name
        """,
    ),
    "filters are applied before an exists": (
        "match { $p: Person exists { $p worksAt $c $c.name = $p.name } or $p.age > 9 } "
        'return { $p.age } where $p.name = "Ada"',
        """
        LookUp $p#0: Person by $p#0.name = "Ada"
        ExistsFilter (exists1 or ($p#0.age > 9))
          Rows of exists1 $p#0
          LookUp $c#1: Company by $c#1.name = $p#0.name
          Expand $p#0 -WorksAt:out-> $c#1: Company bound
        OrderBy ties $p#0.id
        Project p.age = $p#0.age
        """,
    ),
    "an exists leaves the start of its block free": (
        "match { $p: Person exists { $p worksAt $c not exists { $c.name = $f.name } } "
        '$p knows $f $f.name = "Ada" } return { $p.age }',
        """
        LookUp $f#1: Person by $f#1.name = "Ada"
        Expand $f#1 -Knows:in-> $p#0: Person
        Keep #0, #1, #2
        SemiJoin
          Rows $p#0, $f#1
          Expand $p#0 -WorksAt:out-> $c#2: Company
          AntiJoin
            Rows $f#1, $c#2
            Filter ($c#2.name = $f#1.name)
        OrderBy ties $p#0.id, $f#1.id
        Project p.age = $p#0.age
        """,
    ),
    "a range is searched from the other end": (
        'match { $p: Person $p knows{1,3} $f $f.name = "Ada" } return { $p.name }',
        """
        LookUp $f#1: Person by $f#1.name = "Ada"
        Expand $f#1 -Knows:in{1,3} reach-> $p#0: Person
        Keep #0, #1
        OrderBy ties $p#0.id, $f#1.id
        Project p.name = $p#0.name
        """,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_plan(name: str) -> None:
    body, wanted = CASES[name]
    compiled = compile_query(f"query q() {{ {body} }}", CATALOG)
    assert compiled.plan is not None
    lines = [line for _, line in plan_lines(plan_read(compiled.plan, STATISTICS))]
    expected = [line.removeprefix("        ") for line in wanted.strip("\n").splitlines()]
    assert lines == [line for line in expected if line.strip()]


def test_explain_shows_the_patterns_of_an_exists() -> None:
    body = "match { $p: Person $p.age = 3 or exists { $p knows $f } } return { $p.age }"
    compiled = compile_query(f"query q() {{ {body} }}", CATALOG)
    assert compiled.plan is not None
    plan = explained("q", plan_read(compiled.plan, STATISTICS), STATISTICS)
    shown = [(op.name, op.depth, op.details) for op in plan.operators[1:4]]
    assert shown == [
        ("ExistsFilter", 0, "(($p#0.age = 3) or exists1)"),
        ("Rows", 1, "of exists1 $p#0"),
        ("Expand", 1, "$p#0 -Knows:out-> $f#1: Person"),
    ]
    scanned, kept = plan.operators[0].estimated_rows, plan.operators[1].estimated_rows
    assert scanned is not None
    assert kept is not None
    assert scanned > kept > 1
    assert plan.operators[3].reason == "~8 per row"


def test_explain_says_how_many_and_why() -> None:
    body = 'match { $p: Person $p knows $f $f.name = "Ada" } return { $p.age } limit 5'
    compiled = compile_query(f"query q() {{ {body} }}", CATALOG)
    assert compiled.plan is not None
    lines = str(explained("q", plan_read(compiled.plan, STATISTICS), STATISTICS)).splitlines()
    assert lines[0].endswith("-- ~1 row: found by name, of 1,048,576")
    assert lines[1].endswith("-- ~8 rows: ~8 per row")
    assert "only the first are sorted" in lines[3]

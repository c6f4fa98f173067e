"""`names="current"`: queries of older states in the names of today."""

from __future__ import annotations

from typing import Any

import pytest

from omnigraph.errors import InvalidArgument, TypeCheckError
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph_testing.workloads import settings

FIRST = """
interface Named { name: String }
node Person implements Named {
  name: String @key  age: I64?  nick: String? @index  old: I64?  a: I64?  bio: String?
}
node Pet implements Named { name: String @key }
node Gone { name: String @key }
edge Knows: Person -> Person { since: I64? }
edge Has: Person -> Pet
"""
LAST = """
interface Named { name: String }
node Human implements Named @rename_from("Person") {
  name: String @key  years: F64? @rename_from("age")  alias: String? @rename_from("nick") @index
  b: I64? @rename_from("a")  a: String?  text: String? @rename_from("bio")
}
node Pet implements Named { name: String @key  kind: String? }
node City { name: String @key }
edge Met: Human -> Human @rename_from("Knows") { year: I64? @rename_from("since")  note: String? }
edge Has: Human -> Pet
edge LivesIn: Human -> City
"""


@pytest.fixture(scope="module")
def renamed(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    graph = init(tmp_path_factory.mktemp("names") / "g", FIRST, settings=settings())
    people = [
        {"name": "ada", "age": 36, "nick": "al", "old": 1, "a": 10, "bio": "likes engines"},
        {"name": "bob", "age": 40, "a": 20},
    ]
    graph.apply(
        {
            "Person": {"insert": people},
            "Pet": {"insert": [{"name": "rex"}]},
            "Gone": {"insert": [{"name": "x"}]},
            "Knows": {"insert": [{"src": "ada", "dst": "bob", "since": 7}]},
            "Has": {"insert": [{"src": "ada", "dst": "rex"}]},
        }
    )
    graph.tags.create("v1")
    graph.schema.apply(LAST.replace("  a: String?", ""), allow_data_loss=True)
    graph.schema.apply(LAST.replace(' @rename_from("a")', ""))
    graph.apply({"Human": {"insert": [{"name": "cy", "years": 1.5, "a": "new"}]}})
    return graph


CASES: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "a renamed type and property": (
        "match { $p: Human } return { $p.name, $p.years } order { $p.years }",
        [{"p.name": "ada", "p.years": 36}, {"p.name": "bob", "p.years": 40}],
    ),
    "a filter and an index": (
        'match { $p: Human { alias: "al" } } return { $p.name }',
        [{"p.name": "ada"}],
    ),
    "the key": ('match { $p: Human { name: "bob" } } return { $p.b }', [{"p.b": 20}]),
    "a name that another property has now": (
        'match { $p: Human { name: "ada" } } return { $p.a as new, $p.b as moved }',
        [{"new": None, "moved": 10}],
    ),
    "a dropped property": (
        'match { $p: Human { name: "ada" } } return { $p.old }',
        [{"p.old": 1}],
    ),
    "a dropped type": ("match { $g: Gone } return { $g.name }", [{"g.name": "x"}]),
    "an edge": (
        "match { $p: Human  $p $e:met $q } "
        "return { $q.name as q, $e.year as year, $e.note as note }",
        [{"q": "bob", "year": 7, "note": None}],
    ),
    "hops": ("match { $p: Human  $p met{1,3} $q } return { $q.name as q }", [{"q": "bob"}]),
    "a property that did not exist": (
        "match { $p: Pet } return { $p.name as n, $p.kind as k }",
        [{"n": "rex", "k": None}],
    ),
    "a condition on it": ('match { $p: Pet { kind: "dog" } } return { $p.name }', []),
    "an interface": (
        "match { $n: Named } return { $n.name as n, type($n) as t } order { $n.name }",
        [
            {"n": "ada", "t": "Human"},
            {"n": "bob", "t": "Human"},
            {"n": "rex", "t": "Pet"},
        ],
    ),
    "groups, not and optional": (
        "match { $p: Human  not { $p has $x }  optional { $q: Human  $q met $p } } "
        "return { $p.name as n, count($q) as c, max($q.years) as m }",
        [{"n": "bob", "c": 1, "m": 36}],
    ),
    "a search": (
        'match { $p: Human  search($p.text, "engines") } return { $p.name as n }',
        [{"n": "ada"}],
    ),
    "a ranking": (
        'match { $p: Human } return { $p.name as n } order { bm25($p.text, "engines") } limit 1',
        [{"n": "ada"}],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_names_of_today(renamed: Graph, name: str) -> None:
    text, rows = CASES[name]
    result = renamed.query(text, at="v1", names="current")
    assert result.to_pylist() == rows
    assert str(renamed.explain(text, at="v1", names="current"))
    assert renamed.profile(text, at="v1", names="current").actual_rows == len(rows)


@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", ["an edge", "an interface"])
def test_spark_reads_the_same(renamed: Graph, name: str) -> None:
    text, rows = CASES[name]
    result = renamed.query(text, at="v1", names="current", engine="spark")
    assert result.to_pylist() == rows


def test_the_names_of_then_stay_the_default(renamed: Graph) -> None:
    rows = renamed.query("match { $p: Person } return { $p.age } order { $p.age }", at="v1")
    assert rows.to_pylist() == [{"p.age": 36}, {"p.age": 40}]
    with pytest.raises(TypeCheckError, match="Human"):
        renamed.query("match { $p: Human } return { $p.name }", at="v1")
    with pytest.raises(TypeCheckError, match="Person"):
        renamed.query("match { $p: Person } return { $p.name }", at="v1", names="current")


def test_the_head_in_its_own_names(renamed: Graph) -> None:
    text = 'match { $p: Human { a: "new" } } return { $p.years }'
    assert renamed.query(text, names="current").to_pylist() == [{"p.years": 1.5}]
    assert renamed.query(text).to_pylist() == [{"p.years": 1.5}]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("match { $c: City } return { $c.name }", TypeCheckError),
        ("match { $p: Human  $p livesIn $c } return { $c.name }", TypeCheckError),
        (
            'match { $p: Human } return { $p.name } order { bm25($p.a, "x") } limit 1',
            InvalidArgument,
        ),
    ],
)
def test_what_did_not_exist_is_a_typed_error(
    renamed: Graph, text: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        renamed.query(text, at="v1", names="current")


def test_unknown_names_are_refused(renamed: Graph) -> None:
    with pytest.raises(InvalidArgument, match="'then' or 'current'"):
        renamed.query("match { $p: Human } return { $p.name }", at="v1", names="new")

"""Rows beyond the memory budget go through the disk: the same answers, and nothing left there."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import ResourceLimit
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph.settings.models import ReadSettings, Settings

PEOPLE = 150
HOPS = "$p: Person $p knows $m $m knows $f"
PATHS = "$p: Person $t = $p knows{1,2} $f"
QUERIES = {
    "order": f"match {{ {HOPS} }} return {{ $p.name, $f.age }} order {{ $f.age desc, $m.team }}",
    "ids": f"match {{ {HOPS} }} return {{ $p.name, $m.name, $f.name }}",
    "edges": "match { $p: Person $p $k:knows $m $m $l:knows $f } return { $k.w, $l.w, $f.name } "
    "order { $k.w }",
    "top": f"match {{ {HOPS} }} return {{ $p.name, $f.score }} order {{ $f.score }} limit 7",
    "page": f"match {{ {HOPS} }} return {{ $p.name, $f.age }} order {{ $f.age }} limit 5 offset 9",
    "groups": f"match {{ {HOPS} }} return {{ $p.team, $f.team as other, count($m) as n, "
    "sum($f.age) as s, avg($m.score) as a, count(distinct $f.name) as d, min($m.name) as low }",
    "entities": f"match {{ {HOPS} }} return {{ $m, count($f) as n, max($p.age) as x }}",
    "floats": f"match {{ {HOPS} }} return {{ $f.score, count($p) as n, min($m.age) as x }}",
    "having": f"match {{ {HOPS} }} return {{ $f.name, sum($p.age) as n }} where n > 100",
    "total": f"match {{ {HOPS} $p.age < $f.age }} return {{ count($p) as n, sum($f.age) as s, "
    "min($m.name) as low, max($m.score) as high }",
    "distinct": f"match {{ {HOPS} }} return distinct {{ $p.team, $f.age }}",
    "collect": f"match {{ {HOPS} $p.age < 9 }} return {{ $p.team, collect($f.name) as names }}",
    "optional": "match { $p: Person $p knows $m optional { $m knows $f $f.age > 20 } } "
    "return { $p.name, $f.name } order { $f.score desc }",
    "averages": f"match {{ {HOPS} }} return {{ avg($f.score) as a, avg($m.age) as b, "
    "sum($p.score) as s, count($f.team) as n, count(distinct $f) as people }",
    "different": f"match {{ {HOPS} }} return {{ count(distinct $f.team) as t, avg($m.age) as a, "
    "count(distinct $m.score) as c, sum(distinct $p.age) as s, max($f.name) as x }",
    "nothing": f"match {{ {HOPS} $f.age > 100 }} return {{ avg($f.score) as a, "
    "count(distinct $f.team) as t, min($f.name) as n, sum($p.age) as s }",
    "no groups": f"match {{ {HOPS} $f.age > $m.age $f.age < $m.age }} "
    "return { $p.team, min($f.score) as low }",
    "paths": f"match {{ {PATHS} }} return {{ $t, length($t) as n }} order {{ $f.age desc }}",
    "path groups": f"match {{ {PATHS} }} return {{ $p.name, length($t) as n, count($t) as c, "
    "count(distinct $t) as d }",
    "path totals": f"match {{ {PATHS} }} return {{ count($t) as c, max(length($t)) as m, "
    "count(distinct $t) as d }",
    "list groups": f"match {{ {HOPS} }} return {{ $f.tags, $m.marks as marks, count($p) as n }}",
    "scores": f"match {{ {HOPS} }} return {{ $p.name, bm25($f.bio, 'red hat') as s }} "
    "order { s desc, $m.name }".replace("'", '"'),
    "best scores": f"match {{ {HOPS} }} return {{ $p.name, bm25($f.bio, 'red hat') as s }} "
    "order { s desc } limit 9".replace("'", '"'),
    "everything": f"match {{ {HOPS} }} return {{ collect($f.name) as names }}",
    "one row": 'match { $p: Person { name: "n001" } $q: Person $r: Person $s: Person '
    "$s.age < $q.age } return { count($s) as n, avg($r.score) as a }",
    "product": "match { $a: Person $b: Person } return { $a.team, count($b) as n }",
}


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    graph = init(
        tmp_path_factory.mktemp("spill") / "g.omni",
        "node Person { name: String @key  age: I32?  team: String?  score: F64?  "
        "tags: [String]?  marks: [F64]?  bio: String? @index }\n"
        "edge Knows: Person -> Person { w: I64? }",
    )
    people = [
        {
            "name": f"n{i:03}",
            "age": None if i % 11 == 0 else i % 40,
            "team": None if i % 7 == 0 else f"t{i % 5}",
            "tags": None if i % 9 == 0 else [f"é{i % 3}", "b"][: i % 4],
            "marks": None if i % 8 == 0 else [-0.0 if i % 2 else 0.0, i % 5 / 7][: i % 3],
            "bio": None if i % 10 == 0 else f"a {'red' if i % 3 else 'blue'} hat {i % 17}",
            "score": None if i % 13 == 0 else (-0.0 if i % 6 == 0 else (i % 6) / 3),
        }
        for i in range(PEOPLE)
    ]
    edges = [
        {"id": f"k{i:03}-{s:02}", "from": f"n{i:03}", "to": f"n{(i * 3 + s) % PEOPLE:03}", "w": s}
        for i in range(PEOPLE)
        for s in range(12)
    ]
    graph.apply({"Person": {"insert": people}, "Knows": {"insert": edges}})
    return graph


def tight(graph: Graph, folder: Path, **settings: int) -> Graph:
    read = ReadSettings(spill_directory=str(folder), **settings)
    return open_graph(graph.uri, read_only=True, settings=Settings(read=read))


@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_is_the_same(crowd: Graph, tmp_path: Path, name: str) -> None:
    text = f"query q() {{ {QUERIES[name]} }}"
    expected = crowd.query(text)
    # Whole paths come back with the answer, as lists of ids; other rows as positions.
    budget = 4_000_000 if PATHS in text else 500_000
    found = tight(crowd, tmp_path, memory_bytes=budget).query(text)
    assert found.columns == expected.columns
    assert found.to_pylist() == expected.to_pylist()
    assert list(tmp_path.iterdir()) == []


def test_the_disk_has_a_limit_too(crowd: Graph, tmp_path: Path) -> None:
    text = f"query q() {{ {QUERIES['order']} }}"
    with pytest.raises(ResourceLimit, match="spill_bytes") as refused:
        tight(crowd, tmp_path, memory_bytes=500_000, spill_bytes=1000).query(text)
    assert refused.value.limit == "spill"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "what",
    [
        f"{HOPS} }} return distinct {{ $p.name, $m.name, $f.name }}",
        f"{HOPS} }} return {{ $p.name, rrf(bm25($f.bio, 'red'), bm25($m.bio, 'hat')) as s }} "
        "order { s desc } limit 3".replace("'", '"'),
    ],
    ids=["an answer that large", "ranks among all rows"],
)
def test_what_cannot_be_cut_is_refused(crowd: Graph, tmp_path: Path, what: str) -> None:
    text = f"query q() {{ match {{ {what} }}"
    with pytest.raises(ResourceLimit, match="budget"):
        tight(crowd, tmp_path, memory_bytes=500_000).query(text)

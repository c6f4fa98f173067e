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
    "product": "match { $a: Person $b: Person } return { $a.team, count($b) as n }",
}


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    graph = init(
        tmp_path_factory.mktemp("spill") / "g.omni",
        "node Person { name: String @key  age: I32?  team: String?  score: F64? }\n"
        "edge Knows: Person -> Person { w: I64? }",
    )
    people = [
        {
            "name": f"n{i:03}",
            "age": None if i % 11 == 0 else i % 40,
            "team": None if i % 7 == 0 else f"t{i % 5}",
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
    found = tight(crowd, tmp_path, memory_bytes=500_000).query(text)
    assert found.columns == expected.columns
    assert found.to_pylist() == expected.to_pylist()
    assert list(tmp_path.iterdir()) == []


def test_the_disk_has_a_limit_too(crowd: Graph, tmp_path: Path) -> None:
    text = f"query q() {{ {QUERIES['order']} }}"
    with pytest.raises(ResourceLimit, match="spill_bytes") as refused:
        tight(crowd, tmp_path, memory_bytes=500_000, spill_bytes=1000).query(text)
    assert refused.value.limit == "spill"
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_cut_is_refused(crowd: Graph, tmp_path: Path) -> None:
    text = (
        'query q() { match { $p: Person { name: "n001" } $q: Person $r: Person $s: Person } '
        "return { count($s) as n } }"
    )
    with pytest.raises(ResourceLimit, match="budget"):
        tight(crowd, tmp_path, memory_bytes=500_000).query(text)

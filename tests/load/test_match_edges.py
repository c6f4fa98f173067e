"""Edges without ids in mode merge and in upserts: loading the same again changes nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from omnigraph import init
from omnigraph.errors import ValidationFailed
from omnigraph.graph.handle import Graph
from omnigraph.load import match_edges, write_tables
from omnigraph.load.options import LoadReceipt, TypeCounts
from omnigraph_testing.graph_helpers import meanwhile, rival_of, with_parts
from omnigraph_testing.invariants import assert_at_rest, content

SCHEMA = """
node Person { name: String @key }
edge Knows: Person -> Person { since: Date?  tags: [String]?  vec: Vector(2)?  weight: F64? }
edge Likes: Person -> Person @card(0..3) { why: String?  stars: I32?  @unique(src, dst, why) }
edge Keyed: Person -> Person { stars: I32?  @key(src, dst) }
"""
PEOPLE = [{"name": name} for name in ("ada", "bob", "cy")]
Arrange = Callable[[Callable[[], object]], None]


@pytest.fixture(params=["small", "bulk", "long lists", "DuckDB", "all"])
def graph(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Graph:
    found = init(tmp_path / "graph.omni", SCHEMA)
    found.apply({"Person": {"insert": PEOPLE}})
    if request.param == "small":
        return found
    if request.param in ("long lists", "all"):
        monkeypatch.setattr(match_edges, "LONGEST_LIST", 0)
        monkeypatch.setattr(match_edges, "_FEW_SHARE", 0)
    if request.param in ("DuckDB", "all"):
        monkeypatch.setattr(match_edges, "_HELD_SHARE", 1 << 60)
        monkeypatch.setattr(write_tables, "_LOOKED_UP_ROWS", 0)
    return with_parts(found, loader=replace(found.engine.loader, small_input=0))


def line(edge: str, source: str, target: str, **data: Any) -> str:
    return json.dumps({"edge": edge, "from": source, "to": target, "data": data})


def load(graph: Graph, folder: Path, *lines: str, mode: str = "merge") -> LoadReceipt:
    path = folder / "in.ndjson"
    path.write_text("\n".join(lines))
    receipt = graph.load(path, mode)
    assert_at_rest(graph)
    return receipt


def edges(graph: Graph, name: str) -> Counter[str]:
    return Counter(
        json.dumps({k: v for k, v in row.items() if k != "id"}, default=str, sort_keys=True)
        for row in content(graph)[name].values()
    )


MIXED = (
    line("Knows", "ada", "bob", since="2020-01-01", tags=["x"], vec=[1, 2], weight=0.5),
    line("Knows", "ada", "bob"),
    line("Knows", "ada", "bob"),
    line("Knows", "bob", "cy", tags=[]),
    line("Knows", "bob", "cy", id="given", tags=[]),
    line("Likes", "ada", "bob", why="tea", stars=1),
    line("Likes", "ada", "bob"),
    line("Likes", "ada", "cy", why="tea"),
    line("Keyed", "ada", "bob", stars=1),
)


def test_the_same_input_again_changes_nothing(graph: Graph, tmp_path: Path) -> None:
    load(graph, tmp_path, *MIXED)
    before = content(graph)
    again = load(graph, tmp_path, *MIXED)
    assert again.commit is None
    assert again.edges == (
        TypeCounts("Keyed", 1, unchanged=1),
        TypeCounts("Knows", 5, unchanged=5),
        TypeCounts("Likes", 3, unchanged=3),
    )
    assert load(graph, tmp_path, *reversed(MIXED)).commit is None
    assert content(graph) == before


def test_the_graph_has_each_edge_as_often_as_the_input(graph: Graph, tmp_path: Path) -> None:
    bare = line("Knows", "ada", "bob")
    load(graph, tmp_path, bare)
    more = load(graph, tmp_path, bare, bare, bare, line("Knows", "ada", "bob", weight=1))
    assert more.edges == (TypeCounts("Knows", 4, inserted=3, unchanged=1),)
    assert load(graph, tmp_path, bare, bare).commit is None
    assert sorted(edges(graph, "Knows").values()) == [1, 3]


def test_the_edge_of_a_unique_tuple_is_updated(graph: Graph, tmp_path: Path) -> None:
    load(graph, tmp_path, line("Likes", "ada", "bob", why="tea", stars=1, id="l1"))
    changed = load(graph, tmp_path, line("Likes", "ada", "bob", why="tea", stars=2))
    assert changed.edges == (TypeCounts("Likes", 1, updated=1),)
    assert content(graph)["Likes"]["l1"]["stars"] == 2
    other = load(graph, tmp_path, line("Likes", "ada", "bob", why="rum", stars=2))
    assert other.edges == (TypeCounts("Likes", 1, inserted=1),)


def test_an_edge_that_the_input_names_is_not_meant_by_another_row(
    graph: Graph, tmp_path: Path
) -> None:
    named = line("Likes", "ada", "bob", why="rum", id="l1")
    load(graph, tmp_path, line("Likes", "ada", "bob", why="tea", id="l1"))
    both = load(graph, tmp_path, named, line("Likes", "ada", "bob", why="tea"))
    assert both.edges == (TypeCounts("Likes", 2, inserted=1, updated=1),)
    assert content(graph)["Likes"]["l1"]["why"] == "rum"


def test_one_tuple_twice_is_refused_whether_it_is_stored_or_not(
    graph: Graph, tmp_path: Path
) -> None:
    twice = [line("Likes", "ada", "bob", why="tea", stars=n) for n in (1, 2)]
    with pytest.raises(ValidationFailed, match="@unique"):
        load(graph, tmp_path, *twice)
    load(graph, tmp_path, twice[0])
    with pytest.raises(ValidationFailed, match="@unique"):
        load(graph, tmp_path, *twice)


def test_matched_edges_count_once_for_the_cardinality(graph: Graph, tmp_path: Path) -> None:
    three = [line("Likes", "ada", name) for name in ("ada", "bob", "cy")]
    load(graph, tmp_path, *three)
    assert load(graph, tmp_path, *three).commit is None
    with pytest.raises(ValidationFailed, match="would have 4 edges"):
        load(graph, tmp_path, *three, line("Likes", "ada", "cy", why="x"))


def test_append_still_adds(graph: Graph, tmp_path: Path) -> None:
    bare = line("Knows", "ada", "bob")
    for _ in range(2):
        load(graph, tmp_path, bare, mode="append")
    assert len(content(graph)["Knows"]) == 2


@pytest.fixture
def when_written(monkeypatch: pytest.MonkeyPatch) -> Arrange:
    return partial(meanwhile, monkeypatch, "load.after_write")


def test_two_loads_of_the_same_edges_at_once_do_not_double_them(
    graph: Graph, tmp_path: Path, when_written: Arrange
) -> None:
    rival, theirs = rival_of(graph), tmp_path / "theirs.ndjson"
    theirs.write_text("\n".join(MIXED))
    when_written(lambda: rival.load(theirs, "merge"))
    receipt = load(graph, tmp_path, *MIXED)
    assert receipt.commit is None
    assert sum(edges(graph, "Knows").values()) == 5
    assert sum(edges(graph, "Likes").values()) == 3


def test_a_matched_edge_that_is_deleted_meanwhile_is_inserted(
    graph: Graph, tmp_path: Path, when_written: Arrange
) -> None:
    load(graph, tmp_path, line("Knows", "ada", "bob", id="k"), line("Knows", "bob", "cy", id="l"))
    when_written(lambda: rival_of(graph).apply({"Knows": {"delete": ["k"]}}))
    load(graph, tmp_path, line("Knows", "ada", "bob"), line("Knows", "ada", "cy"))
    assert sum(edges(graph, "Knows").values()) == 3


def test_other_edges_meanwhile_are_not_noticed(
    graph: Graph, tmp_path: Path, when_written: Arrange, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(graph, tmp_path, line("Knows", "ada", "bob"))
    calls: list[int] = []
    matched = match_edges.EdgeMatcher.match

    def counted(matcher: match_edges.EdgeMatcher) -> bool:
        calls.append(1)
        return matched(matcher)

    monkeypatch.setattr(match_edges.EdgeMatcher, "match", counted)
    others = [{"from": "cy", "to": "cy"}]
    when_written(lambda: rival_of(graph).apply({"Knows": {"insert": others}}))
    load(graph, tmp_path, line("Knows", "ada", "bob"), line("Knows", "ada", "cy"))
    assert len(calls) == 1
    assert sum(edges(graph, "Knows").values()) == 3


def test_upserts_of_edges_without_ids(graph: Graph) -> None:
    rows = [
        {"from": "ada", "to": "bob", "tags": ["x"], "vec": [1.0, 2.0]},
        {"from": "ada", "to": "bob"},
        {"from": "ada", "to": "bob"},
    ]
    likes = [
        {"from": "ada", "to": "bob", "why": "tea", "stars": 1},
        {"from": "ada", "to": "cy"},
    ]
    edits = {"Knows": {"upsert": rows}, "Likes": {"upsert": likes}}
    graph.apply(edits)
    assert graph.apply(edits).commit is None
    likes[0]["stars"] = 2
    assert graph.apply(edits).affected_edges == 1
    graph.apply({"Knows": {"upsert": rows * 2}})
    assert sum(edges(graph, "Knows").values()) == 6
    assert sum(edges(graph, "Likes").values()) == 2
    graph.apply({"Knows": {"insert": rows}})
    assert sum(edges(graph, "Knows").values()) == 9
    assert_at_rest(graph)


def test_an_upsert_does_not_mean_an_edge_that_the_same_edit_deletes(graph: Graph) -> None:
    graph.apply({"Knows": {"insert": [{"id": "k", "from": "ada", "to": "bob"}]}})
    edit = {"upsert": [{"from": "ada", "to": "bob"}], "delete": ["k"]}
    graph.apply({"Knows": edit})
    (identity,) = content(graph)["Knows"]
    assert identity != "k"

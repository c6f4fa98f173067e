"""Mode patch: what the input has changes, what it leaves out stays."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import init
from omnigraph.errors import ValidationFailed
from omnigraph.graph.handle import Graph
from omnigraph.load import key_index, match_edges, patch_build, write_tables
from omnigraph.load.options import LoadReceipt, TypeCounts
from omnigraph_testing.graph_helpers import meanwhile, rival_of, with_parts
from omnigraph_testing.invariants import assert_at_rest, content

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  city: String?
  tags: [String]?
  vec: Vector(2)?
  photo: Blob?
  born: Date?
  code: String? @unique
}
node Task {
  title: String @key
  state: enum(open, done) @default("open")
  points: I32? @default(3)
  must: I32
}
node Note { text: String  stars: I32? }
edge Knows: Person -> Person { since: Date?  weight: F64? }
edge Likes: Person -> Person { why: String?  stars: I32?  @unique(src, dst, why) }
edge Keyed: Person -> Person { stars: I32?  why: String?  @key(src, dst) }
"""
ADA = {
    "name": "ada",
    "age": 36,
    "city": "x",
    "tags": ["a"],
    "vec": [1, 2],
    "photo": "base64:QQ==",
    "born": "2020-01-01",
    "code": "A",
}


@pytest.fixture(params=["small", "in passes", "DuckDB"])
def graph(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Graph:
    found = init(tmp_path / "graph.omni", SCHEMA)
    found.load([{"type": "Person", "data": ADA}, {"type": "Person", "data": {"name": "bob"}}])
    found.load([{"type": "Note", "data": {"id": "n", "text": "t", "stars": 1}}])
    if request.param == "small":
        return found
    monkeypatch.setattr(patch_build, "_LOOKED_UP_PATCHES", 0)
    monkeypatch.setattr(patch_build, "_PATCHES_PER_PASS", 2)
    monkeypatch.setattr(patch_build, "_FOLDED_BYTES", 1)
    monkeypatch.setattr(write_tables, "_LOOKED_UP_ROWS", 0)
    if request.param == "DuckDB":
        monkeypatch.setattr(match_edges, "_HELD_SHARE", 1 << 60)
        monkeypatch.setattr(key_index, "_HELD_ROWS", 0)
        monkeypatch.setattr(key_index, "MANY_ROWS", 0)
        monkeypatch.setattr(key_index, "_HELD_SHARE", 1 << 60)
    return with_parts(found, loader=replace(found.engine.loader, small_input=0))


def patch(graph: Graph, data: Any, **options: Any) -> LoadReceipt:
    """Patch, then patch again, which changes nothing."""
    receipt = graph.load(data, "patch", **options)
    before = content(graph)
    assert graph.load(data, "patch", **options).commit is None
    assert content(graph) == before
    assert_at_rest(graph)
    return receipt


def person(graph: Graph, name: str) -> dict[str, Any]:
    found: dict[str, Any] = content(graph)["Person"][name]
    return found


def edge(name: str, source: str, target: str, **data: Any) -> dict[str, Any]:
    return {"edge": name, "from": source, "to": target, "data": data}


def test_absent_properties_stay_and_null_sets_null(graph: Graph, tmp_path: Path) -> None:
    before = person(graph, "ada")
    path = tmp_path / "in.ndjson"
    path.write_text(
        '{"type":"Person","data":{"name":"ada","age":37}}\n'
        '{"type":"Person","data":{"name":"bob","city":null,"born":"2021-01-01"}}\n'
        '{"type":"Person","data":{"name":"cy"}}\n'
    )
    receipt = patch(graph, path)
    assert receipt.nodes == (TypeCounts("Person", 3, inserted=1, updated=2),)
    assert person(graph, "ada") == {**before, "age": 37}
    path.write_text('{"type":"Person","data":{"name":"ada","city":null,"tags":null,"photo":null}}')
    receipt = patch(graph, path)
    assert receipt.nodes == (TypeCounts("Person", 1, updated=1, properties_nulled=3),)
    assert person(graph, "ada") == {
        **before,
        "age": 37,
        "city": None,
        "tags": None,
        "photo": None,
    }


def test_every_form_of_input(graph: Graph, tmp_path: Path) -> None:
    before = person(graph, "ada")
    (tmp_path / "Person.csv").write_text("name,age,city\nada,1,\nbob,,y\n")
    patch(graph, tmp_path / "Person.csv")
    assert person(graph, "ada") == {**before, "age": 1, "city": None}
    pq.write_table(pa.table({"name": ["ada"], "city": ["p"]}), tmp_path / "Person.parquet")
    patch(graph, tmp_path / "Person.parquet")
    assert person(graph, "ada") == {**before, "age": 1, "city": "p"}
    patch(graph, pa.table({"name": ["ada"], "age": pa.array([None], pa.int32())}), type="Person")
    patch(graph, pd.DataFrame({"name": ["ada"], "vec": [[3.0, 4.0]]}), type="Person")
    patch(graph, [{"name": "ada", "tags": ["b"]}, {"name": "bob", "age": 5}], type="Person")
    (tmp_path / "flat.ndjson").write_text('{"name":"ada","city":"f"}\n{"age":6,"name":"bob"}\n')
    patch(graph, tmp_path / "flat.ndjson", type="Person")
    (tmp_path / "flat.json").write_text('[{"name":"ada","born":null},{"Name":"bob"}]')
    patch(graph, tmp_path / "flat.json", type="Person", map={"Name": "name"})
    expected = {**before, "age": None, "city": "f", "vec": [3.0, 4.0], "tags": ["b"], "born": None}
    assert person(graph, "ada") == expected
    assert (person(graph, "bob")["age"], person(graph, "bob")["city"]) == (6, "y")


def test_a_new_entity_gets_defaults_and_needs_what_is_required(graph: Graph) -> None:
    receipt = patch(graph, [{"title": "a", "must": 1}, {"title": "b", "must": 2}], type="Task")
    assert receipt.nodes == (TypeCounts("Task", 2, inserted=2),)
    patch(graph, [{"title": "a", "state": "done"}, {"title": "b", "points": None}], type="Task")
    tasks = content(graph)["Task"]
    assert [tasks["a"][n] for n in ("state", "points", "must")] == ["done", 3, 1]
    assert [tasks["b"][n] for n in ("state", "points", "must")] == ["open", None, 2]
    with pytest.raises(ValidationFailed) as caught:
        graph.load([{"title": "a", "points": 1}, {"title": "c"}], "patch", type="Task")
    assert "<rows>:2: Task 'c': 'must' is required" in caught.value.message
    with pytest.raises(ValidationFailed, match="Task 'a': 'must' is required"):
        graph.load([{"title": "a", "must": None}], "patch", type="Task")
    with pytest.raises(ValidationFailed, match="Task: 'title' is required"):
        graph.load([{"points": 1, "must": 1}], "patch", type="Task")


def test_ids_name_entities_without_their_other_required_properties(graph: Graph) -> None:
    patch(graph, [{"id": "n", "stars": 5}], type="Note")
    assert content(graph)["Note"]["n"] == {"id": "n", "text": "t", "stars": 5}
    patch(graph, [{"id": "ada", "age": 5}], type="Person")
    assert (person(graph, "ada")["age"], person(graph, "ada")["city"]) == (5, "x")
    graph.load([edge("Knows", "ada", "bob", id="k", since="2020-01-01")])
    patch(graph, [{"edge": "Knows", "data": {"id": "k", "weight": 1.5}}])
    (found,) = content(graph)["Knows"].values()
    assert (found["src"], found["dst"], found["weight"]) == ("ada", "bob", 1.5)
    with pytest.raises(ValidationFailed, match="'from' is required"):
        graph.load([{"edge": "Knows", "data": {"id": "new", "weight": 1.5}}], "patch")


def test_several_rows_of_one_entity_are_applied_in_order(graph: Graph, tmp_path: Path) -> None:
    rows = [
        {"name": "ada", "age": 1, "city": "one"},
        {"name": "bob", "age": 5},
        {"name": "ada", "age": 2},
        {"name": "dan", "age": 7},
        {"name": "ada", "tags": None},
        {"name": "dan", "city": "z"},
    ]
    receipt = patch(graph, rows, type="Person")
    assert receipt.nodes == (
        TypeCounts("Person", 6, inserted=1, updated=2, unchanged=3, properties_nulled=1),
    )
    found = person(graph, "ada")
    assert (found["age"], found["city"], found["tags"], found["code"]) == (2, "one", None, "A")
    assert (person(graph, "dan")["age"], person(graph, "dan")["city"]) == (7, "z")


def test_edges_are_matched_by_key_by_a_unique_tuple_and_by_content(graph: Graph) -> None:
    first = [
        edge("Keyed", "ada", "bob", stars=1, why="a"),
        edge("Likes", "ada", "bob", why="tea", stars=1),
        edge("Likes", "ada", "bob"),
        edge("Knows", "ada", "bob", since="2020-01-01", weight=0.5),
        edge("Knows", "ada", "bob"),
    ]
    graph.load(first)
    receipt = patch(
        graph,
        [
            edge("Keyed", "ada", "bob", stars=2),
            edge("Likes", "ada", "bob", why="tea"),
            edge("Likes", "ada", "bob", stars=None),
            edge("Knows", "ada", "bob", weight=0.5),
            edge("Knows", "ada", "bob", since="2021-01-01"),
        ],
    )
    assert receipt.edges == (
        TypeCounts("Keyed", 1, updated=1),
        TypeCounts("Knows", 2, inserted=1, unchanged=1),
        TypeCounts("Likes", 2, unchanged=2),
    )
    (keyed,) = content(graph)["Keyed"].values()
    assert (keyed["stars"], keyed["why"]) == (2, "a")
    patch(graph, [{"from": "ada", "to": "bob", "why": "tea", "stars": 9}], type="Likes")
    stars = {row["why"]: row["stars"] for row in content(graph)["Likes"].values()}
    assert stars == {"tea": 9, None: None}
    bare = [{"from": "ada", "to": "bob"}]
    assert patch(graph, bare * 3, type="Knows").commit is None
    assert patch(graph, bare * 5, type="Knows").edges == (
        TypeCounts("Knows", 5, inserted=2, unchanged=3),
    )


def test_rules_see_the_whole_row(graph: Graph) -> None:
    with pytest.raises(ValidationFailed, match="@unique"):
        graph.load([{"name": "bob", "code": "A"}], "patch", type="Person")
    with pytest.raises(ValidationFailed, match="no Person 'zoe'"):
        graph.load([edge("Knows", "ada", "zoe")], "patch")
    with pytest.raises(ValidationFailed, match="must be the spelling of the key"):
        graph.load([{"id": "ada", "name": "bob"}], "patch", type="Person")
    patch(graph, [{"name": "ada", "code": "B"}, {"name": "bob", "code": "A"}], type="Person")


@pytest.mark.parametrize("point", ["load.after_prepare", "load.after_write"])
def test_a_rival_changes_the_same_entities(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """Rows are completed again from what the rival committed."""
    rival = rival_of(graph)
    rows = [{"name": "ada", "city": "rival"}]
    meanwhile(monkeypatch, point, partial(rival.load, rows, "patch", type="Person"))
    receipt = graph.load([{"name": "ada", "age": 1}, {"name": "new"}], "patch", type="Person")
    assert receipt.nodes == (TypeCounts("Person", 2, inserted=1, updated=1),)
    assert (person(graph, "ada")["age"], person(graph, "ada")["city"]) == (1, "rival")
    assert_at_rest(graph)


def test_a_rival_inserts_the_same_edge(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [edge("Knows", "ada", "bob", weight=1.0), edge("Knows", "bob", "ada")]
    meanwhile(monkeypatch, "load.after_write", partial(rival_of(graph).load, rows[:1], "merge"))
    graph.load(rows, "patch")
    assert len(content(graph)["Knows"]) == 2
    assert graph.load(rows, "patch").commit is None


def test_keys_in_strange_spellings(graph: Graph, tmp_path: Path) -> None:
    """An escaped name, a name inside a text, and null beside absent."""
    path = tmp_path / "in.ndjson"
    lines = [
        r'{"type":"Person","data":{"name":"ada","c\u0069ty":null}}',
        '{"type":"Person","data":{"name":"bob","city":"\\"age\\""}}',
        '{"data":{"name":"cy","age":1},"type":"Person"}',
        '{"type":"Person","data":{"name":"cy","born":null,"city":"age"}}',
    ]
    path.write_text("\n".join(lines))
    patch(graph, path)
    assert (person(graph, "ada")["city"], person(graph, "ada")["age"]) == (None, 36)
    assert person(graph, "bob")["city"] == '"age"'
    assert (person(graph, "cy")["age"], person(graph, "cy")["city"]) == (1, "age")
    assert json.loads(lines[1])["data"]["city"] == '"age"'


def test_patches_that_leave_out_different_properties_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part of the ends is matched on its own, in DuckDB as in memory."""
    rows = [
        {"from": who, "to": "b", **given}
        for given in ({"a": 1}, {"b": 2}, {"a": 1, "c": 3}, {"b": 2, "c": 3}, {"c": 3}, {"a": 1})
        for who in ("a", "b", "c")
    ]
    found = []
    for held in (8, 1 << 60):
        graph = init(
            tmp_path / str(held),
            "node P { name: String @key }\nedge E: P -> P { a: I32?  b: I32?  c: I32? }",
        )
        graph.load([{"name": name} for name in "abc"], type="P", engine="local")
        whole = [{"from": "a", "to": "b", "a": 1, "b": 2, "c": 3}, {"from": "b", "to": "b", "c": 3}]
        graph.load(whole, type="E", engine="local")
        with monkeypatch.context() as patch:
            patch.setattr(match_edges, "_HELD_SHARE", held)
            patch.setattr(match_edges, "_PATCHES_AT_ONCE", 4)
            first = graph.load(rows, "patch", type="E", engine="local")
            again = graph.load(rows, "patch", type="E", engine="local")
        assert first.commit is not None
        assert again.commit is None
        edges = graph.read("E").drop_columns(["id"]).to_pylist()
        found.append(sorted(edges, key=str))
    assert found[0] == found[1]

"""Changes over tables of many fragments with deleted rows, indexes and embeddings."""

from __future__ import annotations

from typing import Any

import pytest

from omnigraph.embed.mock import MockProvider
from omnigraph.errors import ValidationFailed
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph_testing.invariants import assert_at_rest
from omnigraph_testing.workloads import settings

OLD = "node P { name: String @key  x: I64?  v: Vector(2)? @index }"


@pytest.fixture
def pieces(uri: str) -> Graph:
    """Six fragments with deleted rows; the deleted ones hold the NULLs."""
    graph = init(uri, OLD, settings=settings())
    for n in range(6):
        rows: list[dict[str, Any]] = [
            {"name": f"a{n}", "x": n, "v": [float(n), 1.0]},
            {"name": f"b{n}"},
            {"name": f"c{n}", "x": 10 + n, "v": [float(n), 2.0]},
        ]
        graph.apply({"P": {"insert": rows}})
    graph.apply({"P": {"delete": [f"b{n}" for n in range(6)]}})
    return graph


def values(graph: Graph, name: str) -> dict[str, Any]:
    return {row["id"]: row[name] for row in graph.read("P").to_pylist()}


def assert_sound(graph: Graph) -> None:
    report = graph.verify()
    assert report.ok, report
    assert_at_rest(graph)


NUMBERS = {f"a{n}": n for n in range(6)} | {f"c{n}": 10 + n for n in range(6)}
SEARCH = (
    "query q($v: Vector(2)) { match { $p: P } return { $p.name as n } "
    "order { nearest($p.v, $v) } limit 1 }"
)


def test_nulls_of_deleted_rows_do_not_hinder_a_required_property(pieces: Graph) -> None:
    pieces.schema.apply("node P { name: String @key  x: I64  v: Vector(2) @index }")
    assert values(pieces, "x") == NUMBERS
    assert pieces.query(SEARCH, params={"v": [3.0, 1.0]}).to_pylist() == [{"n": "a3"}]
    pieces.schema.apply("node P { name: String @key  x: F64  v: Vector(2) @index }")
    assert values(pieces, "x") == NUMBERS
    pieces.optimize()
    pieces.ensure_indices()
    assert pieces.query(SEARCH, params={"v": [3.0, 1.0]}).to_pylist() == [{"n": "a3"}]
    pieces.apply({"P": {"insert": [{"name": "new", "x": 0.5, "v": [9.0, 9.0]}]}})
    assert_sound(pieces)


def test_a_backfill_meets_every_fragment_and_no_deleted_row(pieces: Graph) -> None:
    pieces.schema.apply(
        OLD.replace("}", "y: String  z: I64 }"), backfill={"P.y": 'name + "!"', "P.z": "x + 1"}
    )
    assert values(pieces, "y") == {name: f"{name}!" for name in NUMBERS}
    assert values(pieces, "z") == {name: x + 1 for name, x in NUMBERS.items()}
    pieces.optimize()
    assert values(pieces, "z") == {name: x + 1 for name, x in NUMBERS.items()}
    assert_sound(pieces)


def test_several_steps_at_once_over_fragments(pieces: Graph) -> None:
    text = (
        'node Q @rename_from("P") { name: String @key  w: String @rename_from("x") '
        "  y: I64 @default(3) }"
    )
    pieces.schema.apply(text, allow_data_loss=True)
    rows = {row["id"]: (row["w"], row["y"]) for row in pieces.read("Q").to_pylist()}
    assert rows == {name: (str(x), 3) for name, x in NUMBERS.items()}
    assert not pieces.schema.apply(text, allow_data_loss=True).applied
    assert_sound(pieces)


def test_an_index_of_another_column_stays(pieces: Graph) -> None:
    pieces.schema.apply(OLD.replace("x: I64?", "x: I64? @index"))
    pieces.ensure_indices()
    pin = pieces.snapshot().pin(next(iter(pieces.snapshot().tables)))
    before = {i.name for i in pieces.engine.store.open(pin.at).describe_indices()}
    pieces.schema.apply(
        OLD.replace("x: I64?", 'u: I64? @index @rename_from("x")').replace("}", "y: I64 }"),
        backfill={"P.y": 1},
    )
    pin = pieces.snapshot().pin(next(iter(pieces.snapshot().tables)))
    after = {i.name for i in pieces.engine.store.open(pin.at).describe_indices()}
    assert before <= after
    query = "query q() { match { $p: P { u: 13 } } return { $p.name as n } }"
    assert pieces.query(query).to_pylist() == [{"n": "c3"}]
    assert_sound(pieces)


@pytest.mark.parametrize("mark", ["", "?"])
def test_vectors_are_made_again(uri: str, monkeypatch: pytest.MonkeyPatch, mark: str) -> None:
    provider = MockProvider("first", 4)
    monkeypatch.setattr("omnigraph.graph.engine.choose_provider", lambda *_: provider)
    text = 'node P {{ name: String @key  t: String  x: Vector({}){} @embed("t", model="{}") }}'
    graph = init(uri, text.format(4, mark, "first"), settings=settings())
    rows = [{"name": n, "t": f"text {n}", "x": [1.0, 0.0, 0.0, 0.0]} for n in "ab"]
    graph.apply({"P": {"insert": rows}})
    provider = MockProvider("second", 6)
    monkeypatch.setattr("omnigraph.graph.engine.choose_provider", lambda *_: provider)
    graph = open_graph(uri, settings=settings())
    new = text.format(6, mark, "second")
    assert not graph.schema.plan(new).supported
    plan = graph.schema.plan(new, reembed=True)
    assert plan.supported, plan
    graph.schema.apply(new, reembed=True)
    made = {name: pytest.approx(provider.embed([f"text {name}"])[0], rel=1e-5) for name in "ab"}
    assert values(graph, "x") == made
    assert not graph.schema.apply(new).applied
    assert_sound(graph)


def test_an_entity_without_a_text_gets_no_required_vector(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = MockProvider("m", 4)
    monkeypatch.setattr("omnigraph.graph.engine.choose_provider", lambda *_: provider)
    text = 'node P {{ name: String @key  t: String?  x: Vector({}) @embed("t", model="m") }}'
    graph = init(uri, text.format(2), settings=settings())
    rows = [{"name": n, "t": t, "x": [1.0, 0.0]} for n, t in (("a", "one"), ("b", None))]
    graph.apply({"P": {"insert": rows}})
    plan = graph.schema.plan(text.format(4), reembed=True)
    assert [(v.code, v.sample_ids) for v in plan.violations] == [("OG-MF-104", ("b",))]
    with pytest.raises(ValidationFailed):
        graph.schema.apply(text.format(4), reembed=True)

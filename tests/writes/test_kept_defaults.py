"""`@default(now())` and `@default(uuid())` in `Graph.apply`, mutations and merges of branches."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph import Edit, init
from omnigraph.errors import KeyConflict, ValidationFailed
from omnigraph.graph.handle import Graph
from omnigraph_testing.generated_suite import OLD_MOMENT, SCHEMA, content, is_uuid


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return init(tmp_path / "g", SCHEMA)


def people(graph: Graph) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in content(graph)["Person"]}


@pytest.mark.parametrize("as_table", [False, True])
def test_an_insert_makes_what_it_leaves_out(graph: Graph, as_table: bool) -> None:
    rows = [{"name": "a"}, {"name": "b"}]
    graph.apply({"Person": Edit(insert=pa.Table.from_pylist(rows) if as_table else rows)})
    a, b = people(graph).values()
    assert a["made"] == b["made"]
    assert a["day"] == a["made"].date()
    assert is_uuid(a["token"])
    assert a["token"] != b["token"]
    assert abs(dt.datetime.now(dt.UTC) - a["made"]) < dt.timedelta(minutes=5)


def test_a_null_stays_null_and_is_refused_where_a_value_is_required(graph: Graph) -> None:
    graph.apply({"Person": Edit(insert=[{"name": "a", "day": None}, {"name": "b"}])})
    assert [row["day"] is None for row in people(graph).values()] == [True, False]
    with pytest.raises(ValidationFailed, match="made"):
        graph.apply({"Person": Edit(insert=[{"name": "c", "made": None}, {"name": "d"}])})


def test_an_upsert_keeps_the_values_of_a_stored_entity(graph: Graph) -> None:
    graph.apply({"Person": Edit(insert=[{"name": "a"}, {"name": "b"}])})
    before = people(graph)
    same = graph.apply({"Person": Edit(upsert=[{"name": "a"}, {"name": "b"}])})
    assert same.commit is None
    rows = [{"name": "a", "age": 3}, {"name": "b", "made": OLD_MOMENT}, {"name": "c"}]
    graph.apply({"Person": Edit(upsert=rows)})
    now = people(graph)
    assert now["a"] == {**before["a"], "age": 3}
    assert now["b"] == {**before["b"], "made": OLD_MOMENT}
    assert is_uuid(now["c"]["token"])
    thief = {"name": "d", "token": before["a"]["token"]}
    with pytest.raises(ValidationFailed, match="token"):
        graph.apply({"Person": Edit(upsert=[{"name": "a", "age": 4}, thief])})
    assert people(graph) == now


def test_upserted_edges_without_ids_mean_the_stored_ones(graph: Graph) -> None:
    graph.apply({"Person": Edit(insert=[{"name": "a"}, {"name": "b"}])})
    ends = {"from": "a", "to": "b"}
    edits = {
        "Knows": Edit(upsert=[ends, {**ends, "at": OLD_MOMENT}, {**ends, "at": None}, ends]),
        "Likes": Edit(upsert=[{**ends, "weight": 1}]),
        "Saw": Edit(upsert=[ends]),
    }
    graph.apply(edits)
    before = content(graph)
    assert [len(before[name]) for name in edits] == [4, 1, 1]
    assert graph.apply(edits).commit is None
    assert content(graph) == before
    graph.apply({"Likes": Edit(upsert=[{**ends, "weight": 2}])})
    assert content(graph)["Likes"] == [{**before["Likes"][0], "weight": 2}]


def test_a_repeated_write_makes_no_second_entity(graph: Graph) -> None:
    for _ in range(2):
        graph.apply({"Ticket": Edit(insert=[{"text": "x"}])}, idempotency_key="a")
        graph.mutate('insert Ticket { text: "y" }', idempotency_key="m")
    assert sorted(row["text"] for row in content(graph)["Ticket"]) == ["x", "y"]


def test_mutations_make_what_an_insert_leaves_out(graph: Graph) -> None:
    graph.mutate("""query q() {
      insert Person { name: "a" }
      insert Person { name: "b", made: datetime("2020-01-01T00:00:00Z") }
      insert Ticket { text: "x" }
      insert Knows { from: "a", to: "b" }
    }""")
    a, b = people(graph).values()
    assert (b["made"], a["day"]) == (OLD_MOMENT, b["day"])
    assert is_uuid(a["token"])
    assert a["token"] != b["token"]
    (ticket,) = content(graph)["Ticket"]
    assert is_uuid(ticket["id"])
    assert content(graph)["Knows"][0]["at"] == a["made"]


def test_an_insert_that_replaces_a_node_keeps_its_values(graph: Graph) -> None:
    graph.mutate('insert Person { name: "a" }')
    before = people(graph)["a"]
    graph.mutate('insert Person { name: "a", age: 3 }')
    assert people(graph)["a"] == {**before, "age": 3}
    graph.mutate("""query q() {
      insert Person { name: "c" }
      insert Person { name: "c", age: 1 }
    }""")
    assert people(graph)["c"]["age"] == 1
    with pytest.raises((KeyConflict, ValidationFailed)):
        graph.apply({"Person": Edit(insert=[{"name": "a"}])})


def test_branches_with_generated_values_merge(graph: Graph) -> None:
    graph.apply({"Person": Edit(insert=[{"name": "a"}])})
    graph.branches.create("side")
    graph.apply({"Person": Edit(upsert=[{"name": "a", "age": 1}, {"name": "b"}])}, branch="side")
    graph.apply({"Person": Edit(insert=[{"name": "c"}])})
    before = people(graph)["a"]
    graph.merge("side")
    now = people(graph)
    assert now["a"] == {**before, "age": 1}
    assert sorted(now) == ["a", "b", "c"]

"""Branches whose schemas changed in place are merged: names, columns and rows by identity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph import Graph, MergeConflicts, init

SCHEMA = """
node Person { name: String @key  age: I32?  note: String? }
node Old { x: I32? }
edge Knows: Person -> Person { weight: I32? }
"""
RENAMED = """
node Human @rename_from("Person") {
  name: String @key  years: I32? @rename_from(age)  note: String?
}
node Old { x: I32? }
edge Knows: Human -> Human { weight: I32? }
"""
WIDER = SCHEMA.replace("note: String?", "note: String?  extra: F64?")
NARROWER = SCHEMA.replace("  note: String?", "")
WITHOUT_OLD = SCHEMA.replace("node Old { x: I32? }", "")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = init(tmp_path / "g.omni", SCHEMA)
    names = [f"p{i}" for i in range(6)]
    people = {"name": names, "age": pa.array(range(6), pa.int32()), "note": names}
    graph.load(pa.table(people), type="Person", engine="local")
    graph.load(pa.table({"from": ["p1"], "to": ["p2"]}), type="Knows", engine="local")
    graph.branches.create("b")
    return graph


def rows(graph: Graph, type_name: str) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in graph.read(type_name).to_pylist()}


def update(what: str, who: str, type_name: str = "Person") -> str:
    return f'update {type_name} set {{ {what} }} where name = "{who}"'


def check(graph: Graph) -> None:
    assert graph.verify().findings == ()
    assert graph.merge("b").outcome == "already_up_to_date"


def test_a_rename_of_theirs_and_an_update_of_ours(graph: Graph) -> None:
    graph.schema.apply(RENAMED, branch="b")
    graph.mutate(update("age: 99", "p1"))
    graph.mutate(update("years: 77", "p2", "Human"), branch="b")
    assert graph.merge("b").outcome == "merged"
    found = rows(graph, "Human")
    assert (found["p1"]["years"], found["p2"]["years"], found["p3"]["years"]) == (99, 77, 3)
    hop = 'match { $a: Human { name: "p1" }  $a knows $b } return { $b.years as y }'
    assert graph.query(hop).to_pylist() == [{"y": 77}]
    assert [change.id for change in graph.diff("HEAD~1", "HEAD")] == ["p2"]
    check(graph)


def test_a_rename_of_ours_and_an_update_of_theirs(graph: Graph) -> None:
    graph.schema.apply(RENAMED)
    graph.mutate(update("age: 98", "p2"), branch="b")
    graph.merge("b")
    assert rows(graph, "Human")["p2"]["years"] == 98
    assert rows(graph, "Human")["p2"]["note"] == "p2"
    check(graph)


def test_metadata_changes_keep_the_table_and_its_files(graph: Graph) -> None:
    place = next(d for d in graph.snapshot().datasets if d.type_name == "Person").dataset_path
    graph.schema.apply(RENAMED.replace("note: String?", "note: String?  extra: F64?"), branch="b")
    graph.mutate(update("note: null", "p0"))
    graph.merge("b")
    now = next(d for d in graph.snapshot().datasets if d.type_name == "Human")
    assert now.dataset_path == place
    assert rows(graph, "Human")["p0"] == {
        "id": "p0",
        "name": "p0",
        "years": 0,
        "note": None,
        "extra": None,
    }
    check(graph)


def test_both_add_the_same_property(graph: Graph) -> None:
    graph.schema.apply(WIDER)
    graph.schema.apply(WIDER, branch="b")
    graph.mutate(update("extra: 1.5", "p0"), branch="b")
    graph.mutate(update("extra: 2.5", "p1"))
    graph.merge("b")
    found = rows(graph, "Person")
    assert [found[f"p{i}"]["extra"] for i in range(3)] == [1.5, 2.5, None]
    graph.mutate(update("extra: 3.5", "p2"), branch="b")
    graph.merge("b")
    assert rows(graph, "Person")["p2"]["extra"] == 3.5
    check(graph)


def test_both_add_one_name_with_different_types(graph: Graph) -> None:
    graph.schema.apply(WIDER.replace("F64", "Date"))
    graph.schema.apply(WIDER, branch="b")
    with pytest.raises(MergeConflicts, match=r"extra: Date\?.*extra: F64\?"):
        graph.merge("b")


def test_an_added_and_renamed_property_is_not_one_that_the_other_side_added(graph: Graph) -> None:
    graph.schema.apply(WIDER, branch="b")
    graph.schema.apply(
        WIDER.replace("extra: F64?", 'other: F64? @rename_from("extra")'), branch="b"
    )
    graph.schema.apply(WIDER)
    graph.mutate(update("other: 1.0", "p0"), branch="b")
    graph.mutate(update("extra: 2.0", "p0"))
    graph.merge("b")
    assert (rows(graph, "Person")["p0"]["other"], rows(graph, "Person")["p0"]["extra"]) == (1, 2)
    check(graph)


def test_both_rename_differently(graph: Graph) -> None:
    graph.schema.apply(RENAMED, branch="b")
    graph.schema.apply(RENAMED.replace("years", "jahre"))
    with pytest.raises(MergeConflicts, match=r"jahre.*years"):
        graph.merge("b")


def test_a_dropped_property(graph: Graph) -> None:
    graph.schema.apply(NARROWER, branch="b", allow_data_loss=True)
    graph.mutate(update("age: 50", "p0"))
    graph.merge("b")
    assert rows(graph, "Person")["p0"] == {"id": "p0", "name": "p0", "age": 50}
    assert "note" in graph.read("Person", at="HEAD~1").column_names
    check(graph)


@pytest.mark.parametrize("dropper", ["main", "b"])
def test_a_dropped_property_that_the_other_side_uses(graph: Graph, dropper: str) -> None:
    user = "b" if dropper == "main" else "main"
    graph.schema.apply(NARROWER, branch=dropper, allow_data_loss=True)
    graph.mutate(update('note: "new"', "p4"), branch=user)
    with pytest.raises(MergeConflicts, match=r"Person\.note: dropped in the .*'p4'"):
        graph.merge("b")


def test_a_dropped_type(graph: Graph) -> None:
    graph.schema.apply(WITHOUT_OLD, branch="b", allow_data_loss=True)
    graph.merge("b")
    assert "Old" not in graph.snapshot().catalog.node_types
    check(graph)


def test_a_dropped_type_that_the_other_side_uses(graph: Graph) -> None:
    graph.schema.apply(WITHOUT_OLD, branch="b", allow_data_loss=True)
    graph.mutate("insert Old { x: 1 }")
    with pytest.raises(MergeConflicts, match="Old: dropped in the source, and the target changed"):
        graph.merge("b")


def test_a_backfill_of_theirs(graph: Graph) -> None:
    text = SCHEMA.replace("note: String?", "note: String?  full: String")
    graph.schema.apply(text, branch="b", backfill={"Person.full": 'name + "!"'})
    graph.mutate(update("age: 50", "p0"))
    graph.merge("b")
    assert rows(graph, "Person")["p0"] == {
        "id": "p0",
        "name": "p0",
        "age": 50,
        "note": "p0",
        "full": "p0!",
    }
    check(graph)


def test_rows_of_ours_without_a_value_that_theirs_requires(graph: Graph) -> None:
    text = SCHEMA.replace("note: String?", "note: String?  full: String")
    graph.schema.apply(text, branch="b", backfill={"Person.full": "name"})
    graph.mutate('insert Person { name: "new" }')
    with pytest.raises(MergeConflicts, match="Person 'new': 'full' is required"):
        graph.merge("b")


def test_a_wider_type_of_theirs_holds_for_our_rows(graph: Graph) -> None:
    graph.schema.apply(SCHEMA.replace("age: I32?", "age: I64?"), branch="b")
    graph.mutate(update("age: 50", "p0"))
    graph.mutate(update("age: 5000000000", "p1"), branch="b")
    graph.merge("b")
    found = rows(graph, "Person")
    assert (found["p0"]["age"], found["p1"]["age"]) == (50, 5_000_000_000)
    check(graph)


def test_a_unique_of_theirs_and_duplicates_of_ours(graph: Graph) -> None:
    graph.schema.apply(SCHEMA.replace("note: String?", "note: String? @unique"), branch="b")
    graph.mutate('insert Person { name: "dup", note: "p1" }')
    with pytest.raises(MergeConflicts, match=r"@unique\(note\)"):
        graph.merge("b")


def test_a_constraint_follows_a_rename_of_the_other_side(graph: Graph) -> None:
    graph.schema.apply(SCHEMA.replace("age: I32?", "age: I32? @range(age, 0..200)"))
    graph.schema.apply(RENAMED, branch="b")
    graph.merge("b")
    (limit,) = [c for c in graph.snapshot().catalog.nodes[0].constraints if hasattr(c, "minimum")]
    assert limit.property == "years"
    check(graph)


def test_theirs_renamed_a_type_and_uses_its_name_again(graph: Graph) -> None:
    graph.schema.apply(RENAMED, branch="b")
    graph.schema.apply(RENAMED + "node Person { name: String @key }", branch="b")
    graph.mutate('insert Person { name: "new" }', branch="b")
    graph.mutate(update("age: 99", "p1"))
    graph.merge("b")
    assert rows(graph, "Human")["p1"]["years"] == 99
    assert rows(graph, "Person") == {"new": {"id": "new", "name": "new"}}
    check(graph)


def test_names_move_on_in_a_chain(graph: Graph) -> None:
    """Old becomes Older, and Person becomes Old, in one change."""
    text = """
node Old @rename_from("Person") { name: String @key  age: I32?  note: String? }
node Older @rename_from("Old") { x: I32? }
edge Knows: Old -> Old { weight: I32? }
"""
    graph.mutate("insert Old { x: 7 }")
    graph.schema.apply(text, branch="b")
    graph.merge("b")
    assert rows(graph, "Old")["p1"]["age"] == 1
    assert [row["x"] for row in rows(graph, "Older").values()] == [7]
    check(graph)

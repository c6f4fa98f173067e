"""Undo a schema change with `revert`, and read the change feed across schema changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph import FeedGap, Graph, MergeConflicts, init
from omnigraph.catalog.identity import shape_hash

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


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = init(tmp_path / "g.omni", SCHEMA)
    names = [f"p{i}" for i in range(6)]
    people = {"name": names, "age": pa.array(range(6), pa.int32()), "note": names}
    graph.load(pa.table(people), type="Person", engine="local")
    graph.load(pa.table({"x": pa.array([1, 2], pa.int32())}), type="Old", engine="local")
    graph.load(pa.table({"from": ["p1"], "to": ["p2"]}), type="Knows", engine="local")
    return graph


def content(graph: Graph) -> dict[str, Any]:
    types = [entity.name for entity in graph.snapshot().catalog.entity_types()]
    return {name: graph.read(name).sort_by("id").to_pylist() for name in types}


def identities(graph: Graph) -> dict[str, str]:
    return {
        f"{entity.name}.{declared.name}": declared.identity
        for entity in graph.snapshot().catalog.entity_types()
        for declared in entity.properties
    }


@pytest.mark.parametrize(
    ("text", "backfill"),
    [
        pytest.param(RENAMED, {}, id="rename"),
        pytest.param(WIDER, {}, id="add"),
        pytest.param(SCHEMA.replace("  note: String?", ""), {}, id="drop"),
        pytest.param(SCHEMA.replace("node Old { x: I32? }", ""), {}, id="drop type"),
        pytest.param(SCHEMA + "node New { a: I32? }", {}, id="add type"),
        pytest.param(SCHEMA.replace("age: I32?", "age: I64?"), {}, id="widen"),
        pytest.param(SCHEMA.replace("age: I32?", "age: String?"), {}, id="cast"),
        pytest.param(SCHEMA.replace("note: String?", "note: I32?"), {}, id="lossy cast"),
        pytest.param(SCHEMA.replace("note: String?", "note: String? @unique"), {}, id="unique"),
        pytest.param(SCHEMA.replace("age: I32?", "age: I32"), {}, id="required"),
        pytest.param(
            SCHEMA.replace("note: String?", "note: String?  full: String"),
            {"Person.full": 'name + "!"'},
            id="backfill",
        ),
    ],
)
def test_revert_brings_the_schema_and_the_values_back(
    graph: Graph, text: str, backfill: Mapping[str, str]
) -> None:
    before, ids, rows = shape_hash(graph.snapshot().catalog), identities(graph), content(graph)
    done = graph.schema.apply(text, allow_data_loss=True, backfill=backfill)
    assert done.commit is not None
    assert shape_hash(graph.snapshot().catalog) != before
    graph.revert(done.commit.graph_commit_id)
    assert shape_hash(graph.snapshot().catalog) == before
    assert identities(graph) == ids
    assert content(graph) == rows
    assert graph.verify().findings == ()


def test_revert_does_not_lose_values_that_were_written_since(graph: Graph) -> None:
    done = graph.schema.apply(WIDER)
    assert done.commit is not None
    graph.mutate('update Person set { extra: 1.5 } where name = "p0"')
    head = graph.snapshot().graph_commit_id
    with pytest.raises(MergeConflicts, match=r"Person\.extra: dropped in the source.*'p0'"):
        graph.revert(done.commit.graph_commit_id)
    assert graph.snapshot().graph_commit_id == head
    graph.revert(
        done.commit.graph_commit_id,
        resolutions=[{"type_name": "Person", "property": "extra", "take": "theirs"}],
    )
    assert "extra" not in graph.read("Person").column_names
    assert graph.verify().findings == ()


def test_revert_of_a_drop_leaves_deleted_rows_deleted(graph: Graph) -> None:
    text = SCHEMA.replace("  note: String?", "")
    done = graph.schema.apply(text, allow_data_loss=True)
    assert done.commit is not None
    graph.mutate('delete Person where name = "p5"')
    graph.mutate('insert Person { name: "p9" }')
    graph.revert(done.commit.graph_commit_id)
    notes = {row["id"]: row["note"] for row in graph.read("Person").to_pylist()}
    assert notes == {f"p{i}": f"p{i}" for i in range(5)} | {"p9": None}
    assert graph.verify().findings == ()


def test_the_feed_tells_the_steps_and_goes_on(graph: Graph) -> None:
    cursor = graph.changes(start="now").cursor
    graph.schema.apply(RENAMED)
    graph.mutate('update Human set { years: 50 } where name = "p1"')
    graph.schema.apply(
        RENAMED.replace("note: String?", "note: String?  full: String"),
        backfill={"Human.full": "name"},
    )
    page = graph.changes(cursor=cursor)
    told = [[step["kind"] for step in block.schema_steps] for block in page.blocks]
    assert told == [["rename_type", "rename_property"], [], ["add_property", "backfill_property"]]
    assert [len(block.changes) for block in page.blocks] == [0, 1, 6]
    changed = page.blocks[1].changes[0]
    assert changed.after is not None
    assert (changed.type.name, changed.after["years"]) == ("Human", 50)


def test_a_lossy_step_needs_a_new_baseline(graph: Graph) -> None:
    cursor = graph.changes(start="now").cursor
    graph.schema.apply(SCHEMA.replace("  note: String?", ""), allow_data_loss=True)
    with pytest.raises(FeedGap, match="drop_property"):
        graph.changes(cursor=cursor)
    page = graph.baseline()
    assert len(page.blocks[0].changes) == 9
    graph.mutate('update Person set { age: 7 } where name = "p1"')
    assert [len(block.changes) for block in graph.changes(cursor=page.cursor).blocks] == [1]

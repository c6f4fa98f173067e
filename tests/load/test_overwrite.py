"""An overwrite records what really changed, and the table keeps its indexes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.values.identifiers import EntityKind, TableKey

SCHEMA = """
node Person { name: String @key  age: I32?  tags: [String]?  photo: Blob? }
edge Knows: Person -> Person { weight: F64? }
"""
PERSON = TableKey(EntityKind.NODE, "Person")


def people(ages: dict[str, int]) -> pa.Table:
    tags = pa.array([["x", name] for name in ages], pa.list_(pa.string()))
    photos = pa.array([name.encode() for name in ages], pa.large_binary())
    columns = {"name": [*ages], "age": [*ages.values()], "tags": tags, "photo": photos}
    return pa.table(columns)


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = init(tmp_path / "g.omni", SCHEMA)
    graph.load(people({f"p{i}": i for i in range(50)}), type="Person", engine="local")
    edges = {"id": ["a", "b", "c"], "from": ["p1", "p2", "p3"], "to": ["p2", "p3", "p4"]}
    graph.load(pa.table(edges), type="Knows", engine="local")
    graph.optimize()
    return graph


def recorded(graph: Graph) -> dict[str, tuple[tuple[str, ...], ...] | None]:
    return {str(c.key.type_name): c.ids for c in graph.commits.list()[0].changes}


def test_only_changed_rows_are_recorded(graph: Graph) -> None:
    graph.load(
        people({**{f"p{i}": i for i in range(2, 50)}, "p3": 33, "new": 1}),
        "overwrite",
        type="Person",
        engine="local",
    )
    assert recorded(graph) == {
        "Person": (("new",), ("p3",), ("p0", "p1")),
        "Knows": ((), (), ("a",)),
    }
    assert graph.snapshot().pin(PERSON).row_count == 49
    rows = graph.read("Person", ids=["p2", "p3", "new"])
    assert dict(zip(rows["id"].to_pylist(), rows["age"].to_pylist(), strict=True)) == {
        "p2": 2,
        "p3": 33,
        "new": 1,
    }
    assert graph.read("Person", ids=["p3"])["photo"].to_pylist() == [b"p3"]


def test_the_same_again_commits_nothing(graph: Graph) -> None:
    before = [c.graph_commit_id for c in graph.commits.list()]
    same = people({f"p{i}": i for i in reversed(range(50))})
    assert graph.load(same, "overwrite", type="Person", engine="local").commit is None
    assert [c.graph_commit_id for c in graph.commits.list()] == before


def test_indexes_survive(graph: Graph) -> None:
    def indexes() -> set[str]:
        dataset = graph.engine.store.open(graph.snapshot().pin(PERSON).at)
        return {index.name for index in dataset.describe_indices()}

    before = indexes()
    assert before
    graph.load(people({"p1": 1, "z": 2}), "overwrite", type="Person", engine="local")
    assert indexes() == before
    graph.load(people({"q": 2}), "overwrite", type="Person", engine="local")
    assert indexes() == before
    assert graph.read("Person", ids=["q", "z"])["id"].to_pylist() == ["q"]


def test_edges_without_ids_are_replaced(graph: Graph) -> None:
    edges = pa.table({"from": ["p1", "p2"], "to": ["p2", "p3"]})
    graph.load(edges, "overwrite", type="Knows", engine="local")
    inserted, updated, deleted = recorded(graph)["Knows"] or ()
    assert (len(inserted), updated, deleted) == (2, (), ("a", "b", "c"))
    assert len(graph.read("Knows")) == 2

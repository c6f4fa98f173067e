"""`format("omnigraph")` and exports by Spark in the scope of an actor."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph import Edit
from omnigraph.errors import NotFound, PolicyDenied
from omnigraph.graph.handle import Graph
from omnigraph.policy.policy import Policy
from omnigraph.spark.source.change_stream import ChangeStreamReader
from omnigraph.spark.source.source import OmnigraphSource
from omnigraph.spark.source.source_options import feed_request, save_request
from omnigraph.spark.source.table_writer import begin_write

pytestmark = [pytest.mark.xdist_group("spark_reads"), pytest.mark.timeout(900)]

SCHEMA = """
node Person { name: String @key  dept: String  salary: I64? }
node Vault { code: String @key }
edge Knows: Person -> Person
"""
RULES = """
version: 1
groups: {readers: [reader]}
rules:
  - id: part
    allow:
      actors: {group: readers}
      actions: [read, export, change]
      types: [Person, Knows]
      properties: {Person: [name, dept]}
      where: {Person: 'dept = "a"'}
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraph.init(tmp_path / "g", schema=SCHEMA, actor="root") as made:
        people = [("ada", "a"), ("abe", "a"), ("bob", "b")]
        rows = [{"name": n, "dept": d, "salary": 7} for n, d in people]
        edges = [{"id": "k1", "from": "ada", "to": "abe"}, {"id": "k2", "from": "ada", "to": "bob"}]
        made.apply({"Person": Edit(insert=rows), "Knows": Edit(insert=edges)})
        yield made


@pytest.fixture
def rules(graph: Graph, tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "policy.yaml"
    file.write_text(RULES)
    return {"path": graph.uri, "actor": "reader", "policy": str(file)}


def rows_of(options: dict[str, str]) -> list[dict[str, Any]]:
    """What Spark's workers would do, in this process."""
    source = OmnigraphSource(options)
    reader = source.reader(source.schema())
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return sorted((row for b in batches for row in b.to_pylist()), key=lambda row: str(row["id"]))


def test_a_frame_has_only_what_is_in_scope(rules: dict[str, str]) -> None:
    assert rows_of({**rules, "type": "Person"}) == [
        {"id": "abe", "name": "abe", "dept": "a"},
        {"id": "ada", "name": "ada", "dept": "a"},
    ]
    assert [row["id"] for row in rows_of({**rules, "type": "Knows"})] == ["k1"]
    assert rows_of({**rules, "type": "Person", "columns": "id", "filter": "id = 'bob'"}) == []
    for wrong in ({"type": "Vault"}, {"type": "Person", "columns": "salary"}):
        with pytest.raises(omnigraph.OmnigraphError) as hidden:
            rows_of({**rules, **wrong})
        assert "salary, " not in str(hidden.value)
    with pytest.raises(NotFound):
        rows_of({**rules, "type": "Vault"})
    with pytest.raises(PolicyDenied):
        rows_of({**rules, "actor": "stranger", "type": "Person"})


def test_a_stream_of_changes_shows_visible_images(graph: Graph, rules: dict[str, str]) -> None:
    options = {**rules, "changes": "true", "start": "baseline"}
    reader = ChangeStreamReader(feed_request(options), OmnigraphSource(options).schema())

    def between(start: Any, end: Any) -> list[tuple[str, str]]:
        parts = reader.partitions(start, end)
        rows = [row for p in parts for b in reader.read(p) for row in b.to_pylist()]
        assert "salary" not in json.dumps(rows, default=str)
        return sorted((row["op"], row["id"]) for row in rows)

    start = reader.initialOffset()
    begun = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert between(start, begun) == [("insert", "abe"), ("insert", "ada"), ("insert", "k1")]
    graph.mutate('update Person set { dept: "z" } where name = "abe"')
    later = reader.latestOffset(begun, reader.getDefaultReadLimit())
    assert between(begun, later) == [("delete", "abe"), ("delete", "k1")]


def test_a_save_obeys_the_rules(graph: Graph, rules: dict[str, str]) -> None:
    request = save_request({**rules, "type": "Person"}, overwrite=False)
    with pytest.raises(PolicyDenied, match="names all types and properties"):
        begin_write(request, ["name", "dept"])
    with pytest.raises(PolicyDenied):
        begin_write(save_request({**rules, "actor": "x", "type": "Person"}, overwrite=False), [])


def test_a_load_and_an_export_by_workers_obey_the_rules(
    spark: Any, graph: Graph, tmp_path: Path
) -> None:
    every = RULES.replace("types: [Person, Knows]", "types: [Person, Knows, Vault]")
    file = tmp_path / "rows.yaml"
    file.write_text(every.replace("      properties: {Person: [name, dept]}\n", ""))
    part = graph.as_actor("reader", gate=Policy.load(file))
    receipt = part.export(tmp_path / "out", engine="spark")
    assert {t.type_name: t.entity_count for t in receipt.types} == {
        "Person": 2,
        "Vault": 0,
        "Knows": 1,
    }
    text = "".join(p.read_text() for p in (tmp_path / "out").iterdir())
    assert "bob" not in text
    assert "ada" in text
    good = spark.createDataFrame([("eve", "a")], "name string, dept string")
    part.load(good, type="Person", engine="spark")
    head = graph.snapshot().graph_commit_id
    for row, mode in ((("zoe", "b"), "append"), (("bob", "a"), "merge"), (("u", "a"), "mirror")):
        with pytest.raises(PolicyDenied):
            part.load(
                spark.createDataFrame([row], "name string, dept string"),
                mode,
                type="Person",
                engine="spark",
            )
    assert graph.snapshot().graph_commit_id == head

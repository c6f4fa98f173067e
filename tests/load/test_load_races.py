"""Others commit while a load is between its checks and its publish."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import ExpectedVersionMismatch, KeyConflict, ValidationFailed
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.lance_store.staging import written_fragments
from omnigraph.load import write_tables
from omnigraph.values.identifiers import TableKey
from omnigraph_testing.graph_helpers import meanwhile, rival_of, with_parts
from omnigraph_testing.invariants import assert_at_rest, content
from omnigraph_testing.workloads import small_catalog

Arrange = Callable[[Callable[[], object]], None]
EVE = '{"type":"Person","data":{"name":"eve"}}\n'
TO_BOB = '{"edge":"Knows","from":"eve","to":"bob","data":{"id":"k9"}}\n'


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of every call that writes fragments."""
    calls: list[int] = []

    def counted(dataset: Any, rows: Any) -> tuple[str, ...]:
        calls.append(rows.num_rows)
        return written_fragments.write_to(dataset, rows)

    def counted_stream(dataset: Any, tables: Any) -> tuple[str, ...]:
        parts = list(tables)
        calls.append(sum(part.num_rows for part in parts))
        return written_fragments.write_stream(dataset, parts)

    monkeypatch.setattr(write_tables, "write_to", counted)
    monkeypatch.setattr(write_tables, "write_stream", counted_stream)
    return calls


@pytest.fixture
def when_written(monkeypatch: pytest.MonkeyPatch) -> Arrange:
    """Do something once, when the load has written its rows."""
    return partial(meanwhile, monkeypatch, "load.after_write")


def load(graph: Graph, folder: Path, text: str, mode: str = "append") -> None:
    path = folder / "in.ndjson"
    path.write_text(text)
    graph.load(path, mode)


def test_disjoint_commits_are_not_written_again(
    graph: Graph, tmp_path: Path, writes: list[int], when_written: Arrange
) -> None:
    when_written(lambda: graph.apply({"Person": {"insert": [{"name": "zoe"}]}}))
    load(graph, tmp_path, EVE + TO_BOB)
    assert writes == [1, 1]
    assert set(content(graph)["Person"]) == {"ada", "bob", "eve", "zoe"}
    assert_at_rest(graph)


def test_what_others_break_is_rejected_too(
    graph: Graph, tmp_path: Path, when_written: Arrange
) -> None:
    """A row that was good when the load began falls because of a commit meanwhile."""
    bad, path = tmp_path / "bad.ndjson", tmp_path / "in.ndjson"
    fay = EVE.replace("eve", "fay")
    path.write_text(EVE + TO_BOB + '{"edge":"Knows","from":"eve","to":"nobody"}\n' + fay)
    when_written(lambda: graph.apply({"Person": {"insert": [{"name": "fay"}]}}))
    receipt = graph.load(path, on_error="skip", rejects=bad)
    listed = [json.loads(line) for line in bad.read_text().splitlines()]
    assert [(row["line"], row["rule"]) for row in listed] == [
        (3, "endpoint"),
        (4, "duplicate_id"),
    ]
    assert (receipt.rejected, receipt.total_entities) == (2, 2)
    assert set(content(graph)["Person"]) == {"ada", "bob", "eve", "fay"}
    assert_at_rest(graph)


def test_maintenance_is_not_noticed(
    graph: Graph, tmp_path: Path, writes: list[int], when_written: Arrange
) -> None:
    for number in range(3):
        graph.apply({"Person": {"insert": [{"name": f"p{number}"}]}})
    key, left = TableKey.parse("node:Person"), list[list[str]]()
    versions = [graph.snapshot().pin(key).version]

    def maintain() -> None:
        left.append(graph.optimize())
        versions.append(graph.snapshot().pin(key).version)

    when_written(maintain)
    load(graph, tmp_path, EVE, "overwrite")
    assert left == [[]]
    assert versions[1] > versions[0]
    assert writes == [1]
    assert set(content(graph)["Person"]) == {"eve"}


def test_the_same_key_meanwhile(graph: Graph, tmp_path: Path, when_written: Arrange) -> None:
    when_written(lambda: graph.apply({"Person": {"insert": [{"name": "eve", "age": 1}]}}))
    with pytest.raises(KeyConflict, match=r"in\.ndjson:1: Person 'eve'"):
        load(graph, tmp_path, EVE)
    assert content(graph)["Person"]["eve"]["age"] == 1
    assert_at_rest(graph)


def test_an_endpoint_deleted_meanwhile(graph: Graph, tmp_path: Path, when_written: Arrange) -> None:
    when_written(lambda: graph.apply({"Person": {"delete": ["bob"]}}))
    with pytest.raises(ValidationFailed, match=r"in\.ndjson:2: Knows 'eve' -> 'bob': .*'bob'"):
        load(graph, tmp_path, EVE + TO_BOB)
    assert set(content(graph)["Person"]) == {"ada"}


def test_merge_over_a_row_changed_meanwhile(
    graph: Graph, tmp_path: Path, writes: list[int], when_written: Arrange
) -> None:
    when_written(lambda: graph.apply({"Person": {"upsert": [{"name": "eve", "age": 1}]}}))
    load(graph, tmp_path, EVE, "merge")
    assert writes == [1, 1]
    assert content(graph)["Person"]["eve"]["age"] is None
    changes = graph.commits.list()[0].changes[0]
    assert (changes.inserted, changes.updated) == (0, 1)
    assert_at_rest(graph)


def test_overwrite_surfaces_the_conflict(
    graph: Graph, tmp_path: Path, when_written: Arrange
) -> None:
    when_written(lambda: graph.apply({"Person": {"insert": [{"name": "zoe"}]}}))
    with pytest.raises(ExpectedVersionMismatch):
        load(graph, tmp_path, EVE, "overwrite")
    assert set(content(graph)["Person"]) == {"ada", "bob", "zoe"}
    assert_at_rest(graph)


@pytest.mark.parametrize("small_input", [20_000, -1])
def test_what_was_checked_is_checked_again(
    graph: Graph, tmp_path: Path, when_written: Arrange, small_input: int
) -> None:
    """Row by row and in bulk: the second look is at what is stored then."""
    graph = with_parts(graph, loader=replace(graph.engine.loader, small_input=small_input))
    when_written(lambda: graph.apply({"Person": {"insert": [{"name": "eve"}]}}))
    with pytest.raises(KeyConflict, match="'eve'"):
        load(graph, tmp_path, EVE)


UNIQUE = "node Person { name: String @key  email: String? @unique }"
COUNTED = "node Person { name: String @key } edge Knows: Person -> Person @card(0..1)"


@pytest.mark.parametrize("small_input", [20_000, -1])
@pytest.mark.parametrize(
    ("schema", "line", "theirs", "rule"),
    [
        (
            UNIQUE,
            '{"type":"Person","data":{"name":"eve","email":"x"}}',
            {"Person": {"insert": [{"name": "zoe", "email": "x"}]}},
            "unique",
        ),
        (
            COUNTED,
            '{"edge":"Knows","from":"ada","to":"bob"}',
            {"Knows": {"insert": [{"from": "ada", "to": "ada"}]}},
            "cardinality",
        ),
    ],
)
def test_rules_about_several_rows_are_checked_again(
    tmp_path: Path,
    when_written: Arrange,
    schema: str,
    line: str,
    theirs: dict[str, Any],
    rule: str,
    small_input: int,
) -> None:
    """No id occurs on both sides, and together they break a rule all the same."""
    graph = init(tmp_path / "u.omni", schema)
    graph = with_parts(graph, loader=replace(graph.engine.loader, small_input=small_input))
    graph.apply({"Person": {"insert": [{"name": "ada"}, {"name": "bob"}]}})
    when_written(lambda: graph.apply(theirs))
    with pytest.raises(ValidationFailed) as caught:
        load(graph, tmp_path, line)
    assert [violation["rule"] for violation in caught.value.violations] == [rule]
    assert graph.verify().ok


def test_another_schema_meanwhile(graph: Graph, tmp_path: Path, when_written: Arrange) -> None:
    wider = small_catalog(extra_types=1)
    when_written(lambda: rival_of(graph).schema.apply(wider))
    with pytest.raises(ExpectedVersionMismatch, match="schema changed while this load"):
        load(graph, tmp_path, EVE)
    assert set(content(graph)["Person"]) == {"ada", "bob"}
    assert_at_rest(graph)

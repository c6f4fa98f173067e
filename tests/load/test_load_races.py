"""Others commit while a load is between its checks and its publish."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph import failpoints
from omnigraph.errors import ExpectedVersionMismatch, KeyConflict, ValidationFailed
from omnigraph.graph.handle import Graph
from omnigraph.lance_store.staging import stage_fragments
from omnigraph.load import write_tables
from omnigraph.testing.invariants import assert_at_rest, content
from omnigraph.values.identifiers import TableKey

EVE = '{"type":"Person","data":{"name":"eve"}}\n'
TO_BOB = '{"edge":"Knows","from":"eve","to":"bob","data":{"id":"k9"}}\n'


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of every call that writes fragments."""
    calls: list[int] = []

    def counted(dataset: Any, rows: Any) -> tuple[str, ...]:
        calls.append(rows.num_rows)
        return stage_fragments.write_to(dataset, rows)

    monkeypatch.setattr(write_tables, "write_to", counted)
    return calls


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Do something once, when the load has written its rows."""

    def arrange(action: Callable[[], object]) -> None:
        waiting = [action]

        def hit(name: str) -> None:
            if name == "load.after_write" and waiting:
                waiting.pop()()

        monkeypatch.setattr(failpoints, "hit", hit)

    return arrange


def load(graph: Graph, folder: Path, text: str, mode: str = "append") -> None:
    path = folder / "in.ndjson"
    path.write_text(text)
    graph.load(path, mode)


def test_disjoint_commits_are_not_written_again(
    graph: Graph, tmp_path: Path, writes: list[int], meanwhile: Any
) -> None:
    meanwhile(lambda: graph.apply({"Person": {"insert": [{"name": "zoe"}]}}))
    load(graph, tmp_path, EVE + TO_BOB)
    assert writes == [1, 1]
    assert set(content(graph)["Person"]) == {"ada", "bob", "eve", "zoe"}
    assert_at_rest(graph)


def test_maintenance_is_not_noticed(
    graph: Graph, tmp_path: Path, writes: list[int], meanwhile: Any
) -> None:
    for number in range(3):
        graph.apply({"Person": {"insert": [{"name": f"p{number}"}]}})
    key, left = TableKey.parse("node:Person"), list[list[str]]()
    versions = [graph.snapshot().pin(key).version]

    def maintain() -> None:
        left.append(graph.optimize())
        versions.append(graph.snapshot().pin(key).version)

    meanwhile(maintain)
    load(graph, tmp_path, EVE, "overwrite")
    assert left == [[]]
    assert versions[1] > versions[0]
    assert writes == [1]
    assert set(content(graph)["Person"]) == {"eve"}


def test_the_same_key_meanwhile(graph: Graph, tmp_path: Path, meanwhile: Any) -> None:
    meanwhile(lambda: graph.apply({"Person": {"insert": [{"name": "eve", "age": 1}]}}))
    with pytest.raises(KeyConflict, match=r"in\.ndjson:1: Person 'eve'"):
        load(graph, tmp_path, EVE)
    assert content(graph)["Person"]["eve"]["age"] == 1
    assert_at_rest(graph)


def test_an_endpoint_deleted_meanwhile(graph: Graph, tmp_path: Path, meanwhile: Any) -> None:
    meanwhile(lambda: graph.apply({"Person": {"delete": ["bob"]}}))
    with pytest.raises(ValidationFailed, match=r"in\.ndjson:2: Knows 'eve' -> 'bob': .*'bob'"):
        load(graph, tmp_path, EVE + TO_BOB)
    assert set(content(graph)["Person"]) == {"ada"}


def test_merge_over_a_row_changed_meanwhile(
    graph: Graph, tmp_path: Path, writes: list[int], meanwhile: Any
) -> None:
    meanwhile(lambda: graph.apply({"Person": {"upsert": [{"name": "eve", "age": 1}]}}))
    load(graph, tmp_path, EVE, "merge")
    assert writes == [1, 1]
    assert content(graph)["Person"]["eve"]["age"] is None
    changes = graph.commits.list()[0].changes[0]
    assert (changes.inserted, changes.updated) == (0, 1)
    assert_at_rest(graph)


def test_overwrite_surfaces_the_conflict(graph: Graph, tmp_path: Path, meanwhile: Any) -> None:
    meanwhile(lambda: graph.apply({"Person": {"insert": [{"name": "zoe"}]}}))
    with pytest.raises(ExpectedVersionMismatch):
        load(graph, tmp_path, EVE, "overwrite")
    assert set(content(graph)["Person"]) == {"ada", "bob", "zoe"}
    assert_at_rest(graph)

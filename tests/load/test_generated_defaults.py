"""`@default(now())` and `@default(uuid())` in loads by this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph import init
from omnigraph.graph.handle import Graph
from omnigraph.load import key_index, match_edges, patch_build, write_tables
from omnigraph_testing.generated_suite import CHECKS, INPUT, SCHEMA, content, write_lines
from omnigraph_testing.graph_helpers import meanwhile, with_parts


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("way", ["looked up", "joined"])
def test_generated(
    check: Callable[[Graph, Path, str], None],
    way: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = init(tmp_path / "g", SCHEMA)
    if way == "joined":
        # Everything that is usually done in memory is done in DuckDB and in passes over tables.
        monkeypatch.setattr(key_index, "_HELD_ROWS", 0)
        monkeypatch.setattr(key_index, "MANY_ROWS", 0)
        monkeypatch.setattr(key_index, "_HELD_SHARE", 2**60)
        monkeypatch.setattr(match_edges, "_HELD_SHARE", 2**60)
        monkeypatch.setattr(write_tables, "_LOOKED_UP_ROWS", 0)
        monkeypatch.setattr(patch_build, "_LOOKED_UP_PATCHES", 0)
        graph = with_parts(graph, loader=replace(graph.engine.loader, small_input=-1))
    check(graph, tmp_path, "local")


def test_a_repeated_idempotency_key_makes_no_second_entity(tmp_path: Path) -> None:
    graph = init(tmp_path / "g", SCHEMA)
    rows = [{"text": "x"}]
    first = graph.load(rows, type="Ticket", idempotency_key="k")
    again = graph.load(rows, type="Ticket", idempotency_key="k")
    assert again.repeated
    assert again.commit == first.commit
    assert len(content(graph)["Ticket"]) == 1


@pytest.mark.parametrize("mode", ["merge", "patch"])
def test_a_load_that_is_prepared_again_keeps_what_the_other_writer_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    graph = init(tmp_path / "g", SCHEMA)
    graph.load([{"name": "ada"}], type="Person")
    other: list[dict[str, object]] = []

    def insert_bob() -> None:
        graph.apply({"Person": {"insert": [{"name": "bob"}]}, "Ticket": {"insert": [{}]}})
        other.extend(content(graph)["Person"])

    meanwhile(monkeypatch, "load.after_write", insert_bob)
    graph.load([{"name": "ada", "age": 1}, {"name": "bob", "age": 2}], mode, type="Person")
    ada, bob = other
    assert content(graph)["Person"] == [{**ada, "age": 1}, {**bob, "age": 2}]
    assert len(content(graph)["Ticket"]) == 1


def test_an_export_loads_back_as_it_was(tmp_path: Path) -> None:
    graph = init(tmp_path / "g", SCHEMA)
    graph.load(write_lines(tmp_path / "in.ndjson", INPUT))
    with (tmp_path / "out.ndjson").open("wb") as sink:
        graph.export(sink)
    other = init(tmp_path / "h", SCHEMA)
    other.load(tmp_path / "out.ndjson")
    assert content(other) == content(graph)

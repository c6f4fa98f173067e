"""`demo` on a small size."""

from __future__ import annotations

import omnigraph
from omnigraph.cli.demo.library import data_lines, library_size


def test_the_story(cli, tmp_path) -> None:
    place = tmp_path / "demo"
    answer = cli("demo", "--size", "3000", "--dir", place, "--json", "--engine", "local")
    assert answer.code == 0
    told = answer.json
    assert all(step["milliseconds"] >= 0 for step in told["steps"])
    graph = omnigraph.open(told["uri"])
    assert "P-kept" in graph.read("Paper").column("code").to_pylist()
    assert "P-lost" not in graph.read("Paper").column("code").to_pylist()
    assert [audit.recovery_for_actor for audit in graph.recoveries()] == ["victim"]
    again = cli("demo", "--size", "3000", "--dir", place)
    assert again.code == 1
    assert "is not empty" in again.err


def test_the_library_is_always_the_same() -> None:
    size = library_size(300)
    lines = list(data_lines(size))
    assert lines == list(data_lines(size))
    assert len(lines) == size.entities

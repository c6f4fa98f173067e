"""What people mistype when they name a graph or a moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph

SCHEMA = "node P { a: String @key }"


@pytest.mark.parametrize("below", ["", "graph.omni"])
def test_a_file_is_not_a_graph(tmp_path: Path, below: str) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    for attempt in (lambda: open_graph(file / below), lambda: init(file / below, SCHEMA)):
        with pytest.raises(InvalidArgument, match="is a file; a graph is a directory"):
            attempt()
    assert file.read_text() == "mine"


def test_no_address_is_not_the_current_directory() -> None:
    with pytest.raises(InvalidArgument, match="no address"):
        open_graph("")


def test_an_ordinary_directory_is_no_graph(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="create one with init"):
        open_graph(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_moment_is_text(graph: Graph) -> None:
    with pytest.raises(InvalidArgument, match="text or datetime"):
        graph.read("Note", at=5)  # type: ignore[arg-type]

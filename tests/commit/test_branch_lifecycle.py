"""Names of branches and tags: who may have one, and what a change of it leaves."""

from __future__ import annotations

import pytest

from omnigraph.errors import InvalidName
from omnigraph.graph.handle import Graph
from omnigraph.testing.invariants import assert_at_rest, content

NEW_NOTE = {"Note": {"insert": [{"id": "new", "text": "new"}]}}


def test_no_tag_is_called_main(graph: Graph) -> None:
    """`at="main"` must not mean anything but the branch."""
    with pytest.raises(InvalidName, match="choose another name"):
        graph.tags.create("main")
    assert graph.tags.list() == []


@pytest.mark.parametrize("again", ["caf\u00e9", "cafe\u0301"])
def test_a_rename_to_its_own_name_changes_nothing(graph: Graph, again: str) -> None:
    """Also when the name is spelled with other code points: names are compared in NFC."""
    graph.branches.create("caf\u00e9")
    graph.apply(NEW_NOTE, "caf\u00e9")
    assert graph.branches.rename("caf\u00e9", again).name == "caf\u00e9"
    assert [b.name for b in graph.branches.list()] == ["main", "caf\u00e9"]
    assert "new" in content(graph, "caf\u00e9")["Note"]
    assert_at_rest(graph)

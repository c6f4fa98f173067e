"""Names of branches and tags: who may have one, and what a change of it leaves."""

from __future__ import annotations

import pytest

from omnigraph.errors import InvalidName
from omnigraph.graph.handle import Graph


def test_no_tag_is_called_main(graph: Graph) -> None:
    """`at="main"` must not mean anything but the branch."""
    with pytest.raises(InvalidName, match="choose another name"):
        graph.tags.create("main")
    assert graph.tags.list() == []

"""Checks that every graph must pass when no operation is running."""

from __future__ import annotations

import itertools
from typing import Any

from omnigraph.graph.handle import Graph
from omnigraph.lance_store.store import head_version
from omnigraph.manifest.layout import RECOVERY


def content(graph: Graph, branch: str = "main", at: str | None = None) -> dict[str, Any]:
    """Type name -> id -> row, without empty types. The model graph has the same shape."""
    snapshot = graph.snapshot(branch, at=at)
    found = {}
    for key in snapshot.tables:
        rows = graph.read(key.type_name, branch, at=at).to_pylist()
        if rows:
            assert len({row["id"] for row in rows}) == len(rows), f"{key}: an id occurs twice"
            found[key.type_name] = {row["id"]: row for row in rows}
    return found


def assert_at_rest(graph: Graph) -> None:
    """No intent is left, every owned HEAD equals its pin, row counts and history agree."""
    engine = graph.engine
    assert engine.store.files.list(RECOVERY) == [], "intents are left over"
    for branch in graph.branches.list():
        ref, state = engine.reader.branch(branch.name)
        for pin in state.tables.values():
            dataset = engine.store.open(pin.at)
            assert dataset.count_rows() == pin.row_count, f"{pin.key}: row count of the pin"
            if pin.owner == ref.incarnation:
                head = head_version(dataset)
                assert head == pin.version, (
                    f"{branch.name} {pin.key}: HEAD {head}, pin {pin.version}"
                )
        assert_linear_history(graph, branch.name)
    operations = [audit.operation_id for audit in graph.recoveries()]
    assert len(set(operations)) == len(operations), "a recovery has two audit rows"


def assert_linear_history(graph: Graph, branch: str) -> None:
    """First parents form one chain to the first commit. Each commit is later than its parent."""
    commits = graph.commits.list(branch, limit=None, first_parent=True)
    for child, parent in itertools.pairwise(commits):
        assert child.parent_commit_id == parent.graph_commit_id
        assert child.created_at > parent.created_at
    assert commits[-1].parent_commit_id is None
    assert len({c.graph_commit_id for c in commits}) == len(commits)


def assert_history_readable(graph: Graph, branch: str = "main", limit: int = 20) -> None:
    for commit in graph.commits.list(branch, limit=limit, first_parent=True):
        content(graph, branch, at=commit.graph_commit_id)

"""Short steps that the merge tests share."""

from __future__ import annotations

from typing import Any

import pytest

from omnigraph.errors import MergeConflicts
from omnigraph.graph.handle import Graph


def ages(graph: Graph, branch: str = "main") -> dict[str, Any]:
    return {r["id"]: r["age"] for r in graph.read("Person", branch).to_pylist()}


def set_age(graph: Graph, branch: str, name: str, age: int | None) -> str:
    receipt = graph.apply({"Person": {"upsert": [{"name": name, "age": age}]}}, branch)
    assert receipt.commit is not None
    return receipt.commit.graph_commit_id


def conflicts_of(graph: Graph, source: str, into: str = "main") -> list[tuple]:
    before = graph.branches.show(into).head_commit_id
    with pytest.raises(MergeConflicts) as caught:
        graph.merge(source, into=into)
    assert graph.branches.show(into).head_commit_id == before
    envelope = caught.value.to_dict()
    assert envelope["code"] == "conflict"
    assert len(envelope["merge_conflicts"]) == len(caught.value.conflicts)
    preview = graph.merge(source, into=into, preview=True)
    assert preview == caught.value.conflicts
    return [(c.kind, c.entity_id, c.property, c.base, c.ours, c.theirs) for c in preview]

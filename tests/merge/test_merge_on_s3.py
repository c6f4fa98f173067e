"""Diff, merge, feed and revert once on an object store."""

from __future__ import annotations

import uuid

import pytest

from omnigraph.errors import MergeConflicts
from omnigraph.graph.open import open_graph
from omnigraph_testing.invariants import assert_at_rest
from omnigraph_testing.s3_server import S3Server
from omnigraph_testing.workloads import create_small_graph, settings

pytestmark = pytest.mark.s3


def test_a_branch_comes_back_and_is_reverted(s3: S3Server) -> None:
    bucket = f"b{uuid.uuid4()}"
    s3.create_bucket(bucket)
    graph = create_small_graph(f"s3://{bucket}/graph")
    cursor = graph.changes().cursor
    graph.branches.create("r")
    graph.apply({"Person": {"upsert": [{"name": "ada", "age": 5}, {"name": "cy"}]}}, "r")
    graph.apply({"Person": {"upsert": [{"name": "ada", "age": 6}, {"name": "bob", "age": 7}]}})
    assert [(c.op, c.id) for c in graph.diff("main", "r")] == [
        ("update", "ada"),
        ("update", "bob"),
        ("insert", "cy"),
    ]
    with pytest.raises(MergeConflicts):
        graph.merge("r")
    merge = graph.merge("r", strategy="theirs", delete_branch=True).commit
    assert merge is not None
    fresh = open_graph(graph.uri, settings=settings())
    ages = {"ada": 5, "bob": 7, "cy": None}
    assert {r["id"]: r["age"] for r in fresh.read("Person").to_pylist()} == ages
    blocks = fresh.changes(cursor=cursor).blocks
    assert [[c.id for c in block.changes] for block in blocks] == [["ada", "bob"], ["ada", "cy"]]
    assert fresh.revert(merge.graph_commit_id).commit is not None
    ages = {"ada": 6, "bob": 7}
    assert {r["id"]: r["age"] for r in fresh.read("Person").to_pylist()} == ages
    assert_at_rest(fresh)

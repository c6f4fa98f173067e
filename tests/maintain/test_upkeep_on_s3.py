"""Cleanup, verify, backup and restore where there are no folders, locks or file times of ours."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import SnapshotReclaimed
from omnigraph.graph.open import open_graph
from omnigraph.settings.models import MaintenanceSettings, Settings, WriteSettings
from omnigraph_testing.invariants import assert_at_rest, content
from omnigraph_testing.s3_server import S3Server
from omnigraph_testing.workloads import create_small_graph

pytestmark = pytest.mark.s3


def test_clean_verify_back_up_and_restore(s3: S3Server, tmp_path: Path) -> None:
    bucket = f"b{uuid.uuid4()}"
    s3.create_bucket(bucket)
    uri = f"s3://{bucket}/some/graph"
    create_small_graph(uri, lease=1.0)
    graph = open_graph(
        uri,
        settings=Settings(
            WriteSettings(lease_seconds=1.0),
            maintenance=MaintenanceSettings(automatic=False, minimum_age_seconds=-5),
        ),
    )
    graph.branches.create("b")
    for number in range(4):
        for branch in ("main", "b"):
            graph.apply({"Note": {"upsert": [{"id": "n0", "text": str(number)}]}}, branch)
    wanted = {branch: content(graph, branch) for branch in ("main", "b")}
    old = graph.commits.list()[2].graph_commit_id
    report = graph.cleanup(keep=1, confirm=True)
    assert report.bytes > 0
    assert graph.cleanup(keep=1).files == 0
    fresh = open_graph(uri)
    assert {branch: content(fresh, branch) for branch in wanted} == wanted
    with pytest.raises(SnapshotReclaimed):
        content(fresh, at=old)
    assert fresh.verify().ok
    fresh.backup(tmp_path / "copy")
    store = fresh.engine.store
    store.files.delete_many([file.path for file in store.files.walk("")])
    omnigraph.restore(tmp_path / "copy", uri)
    back = open_graph(uri)
    assert {branch: content(back, branch) for branch in wanted} == wanted
    assert back.verify().ok
    back.apply({"Note": {"insert": [{"id": "n9", "text": "x"}]}}, "b")
    assert_at_rest(back)

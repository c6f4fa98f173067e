"""On S3 only the lease tells: a writer that sleeps past it is fenced, or has succeeded."""

from __future__ import annotations

import pytest

from omnigraph_testing import workloads
from omnigraph_testing.crash import start
from omnigraph_testing.invariants import assert_at_rest, content

pytestmark = [pytest.mark.s3, pytest.mark.crash]

LEASE = 0.4


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("commit.after_arm", marks=pytest.mark.slow),
        pytest.param("commit.after_revalidate", marks=pytest.mark.slow),
        "commit.after_advance_first",
        pytest.param("commit.before_publish", marks=pytest.mark.slow),
    ],
)
def test_a_sleeping_writer(s3_uri: str, point: str) -> None:
    graph = workloads.create_small_graph(s3_uri, lease=LEASE)
    before = content(graph)
    child = start(
        "omnigraph_testing.workloads:write_three_tables",
        {"uri": s3_uri, "lease": LEASE},
        failpoints=f"{point}=sleep:2",
    )
    assert child.wait_for_report() == "open"
    while not graph.engine.board.others():
        assert child.process.poll() is None, "the writer never armed"
    graph.apply({"Note": {"insert": [{"id": "other", "text": "x"}]}})
    code, reports, stderr = child.finish()
    after = content(graph)
    assert after["Note"].pop("other")
    if code == 0:
        assert reports[0] in [c.graph_commit_id for c in graph.commits.list()]
        assert set(after["Note"]) == {"n0", "n1"}
    else:
        assert "WriterFenced" in stderr, stderr
        assert after == before
    assert (code == 0) == (point == "commit.before_publish")
    assert len(graph.recoveries()) == 1
    assert graph.apply({"Note": {"insert": [{"id": "later", "text": "x"}]}}).commit is not None
    assert_at_rest(graph)

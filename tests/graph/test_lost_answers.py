"""A store that stops answering in the middle of a write: rejected, committed or unknown."""

from __future__ import annotations

import pytest

from omnigraph.errors import OutcomeUnknown, StorageFailure
from omnigraph.graph.handle import Graph
from omnigraph_testing import workloads
from omnigraph_testing.invariants import assert_at_rest, content
from omnigraph_testing.s3_server import Request, S3Server

pytestmark = pytest.mark.s3

ONE_NOTE = {"Note": {"insert": [{"id": "n1", "text": "x"}]}}
LEASE = 0.6


class DeadAfter:
    """Matches every request that follows the first one that `begins` matches."""

    def __init__(self, begins: object) -> None:
        self._begins = begins
        self.dead = False

    def lose(self, request: Request) -> bool:
        self.dead = self.dead or bool(self._begins(request))  # type: ignore[operator]
        return self.dead

    def refuse(self, request: Request) -> bool:
        return self.dead


def conditional_put(part: str):
    return lambda r: r.conditional and r.method == "PUT" and part in r.key and "_versions/" in r.key


@pytest.mark.parametrize("part", ["nodes/", pytest.param("__manifest/", marks=pytest.mark.slow)])
def test_a_store_that_dies_after_the_put_landed(s3: S3Server, s3_uri: str, part: str) -> None:
    """The put landed, its answer and everything after it did not come: nobody can know."""
    graph = workloads.create_small_graph(s3_uri, lease=LEASE)
    death = DeadAfter(conditional_put(part))
    with s3.answers_lost(death.lose), s3.refused(death.refuse), pytest.raises(OutcomeUnknown) as e:
        graph.apply(ONE_NOTE)
    graph.apply({"Note": {"insert": [{"id": "n2", "text": "x"}]}})
    assert set(content(graph)["Note"]) == {"n0", "n1", "n2"}, "every table had advanced"
    assert e.value.commit_id in [c.graph_commit_id for c in graph.commits.list()]
    assert_at_rest(graph)


def test_a_store_that_dies_before_anything_moved(s3: S3Server, s3_uri: str) -> None:
    graph = workloads.create_small_graph(s3_uri, lease=LEASE)
    death = DeadAfter(lambda r: r.method == "PUT" and "/data/" in r.key)
    with s3.answers_lost(death.lose), s3.refused(death.refuse), pytest.raises(StorageFailure):
        graph.apply(ONE_NOTE)
    assert set(content(graph)["Note"]) == {"n0"}
    assert_at_rest(graph)


@pytest.mark.slow
def test_two_tables_and_the_store_dies_between_them(s3: S3Server, s3_uri: str) -> None:
    graph: Graph = workloads.create_small_graph(s3_uri, lease=LEASE)
    before = content(graph)
    puts: list[Request] = []

    def second_table(request: Request) -> bool:
        if conditional_put("s/")(request) and "__manifest" not in request.key:
            puts.append(request)
        return len(puts) > 1

    refuse_second = s3.refused(second_table)
    with refuse_second, pytest.raises((StorageFailure, OutcomeUnknown)):
        graph.apply(workloads.THREE_TABLES)
    graph.apply({"Note": {"insert": [{"id": "later", "text": "x"}]}})
    after = content(graph)
    assert after["Note"].pop("later")
    assert after == before
    assert_at_rest(graph)

"""Deltas many times larger than the memory a merge may take."""

from __future__ import annotations

import sys

import pyarrow as pa
import pytest

from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph_testing import workloads
from omnigraph_testing.crash import start

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")

MIB = 1024 * 1024
TEXT_BYTES = 4096


def wide_notes(first: int, last: int, letter: str) -> pa.Table:
    texts = [f"{letter * (TEXT_BYTES - 9)}{i:09}" for i in range(first, last)]
    return pa.table({"id": [f"n{i:07}" for i in range(first, last)], "text": texts})


def narrow_people(first: int, last: int, age: int) -> pa.Table:
    names = [f"p{i:09}" for i in range(first, last)]
    return pa.table({"name": names, "age": pa.array([age] * (last - first), pa.int64())})


def merged_with(graph: Graph, bytes_at_once: int) -> int:
    """Memory that merging `review` took, in a process that did nothing else."""
    graph.apply({"Knows": {"insert": [{"from": "ada", "to": "bob"}]}})
    given = {"uri": graph.uri, "bytes_at_once": bytes_at_once}
    victim = start("omnigraph_testing.workloads:merge_review_measured", given, new_interpreter=True)
    code, reports, stderr = victim.finish(timeout=3600)
    assert code == 0, stderr
    return int(reports[0])


def test_wide_rows_are_merged_in_bounded_memory(graph: Graph) -> None:
    rows, step = 30_000, 5_000
    for first in range(0, rows, step):
        graph.apply({"Note": {"insert": wide_notes(first, first + step, "a")}})
    graph.branches.create("review")
    for first in range(0, rows, step):
        graph.apply({"Note": {"upsert": wide_notes(first, first + step, "b")}}, "review")
    # Three sides of 120 MiB each go through; what stays is a constant of scans and writers.
    assert merged_with(graph, 2 * MIB) < 320 * MIB
    reopened = open_graph(graph.uri, settings=workloads.settings())
    texts = reopened.read("Note").column("text").to_pylist()
    assert sum(text.startswith("bbb") for text in texts) == rows


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_changed_row_takes_little_beyond_a_constant(graph: Graph) -> None:
    rows, step = 2_000_000, 500_000
    for first in range(0, rows, step):
        graph.apply({"Person": {"insert": narrow_people(first, first + step, 0)}})
    graph.ensure_indices()
    graph.branches.create("review")
    for first in range(0, rows, step):
        graph.apply({"Person": {"upsert": narrow_people(first, first + step, 1)}}, "review")
    taken = merged_with(graph, 32 * MIB)
    assert taken < 400 * MIB + 200 * rows

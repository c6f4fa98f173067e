"""The process that commits a micro-batch is killed or runs twice: the batch is written once.

Spark's part is left out: its executors' reports are made here, its replay is the second call.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.graph.handle import Graph
from omnigraph.manifest.records import StreamBatch
from omnigraph.spark.load.load_tasks import run_batches
from omnigraph.spark.source.source_options import SaveRequest
from omnigraph.spark.source.table_writer import begin_write, commit_write
from omnigraph_testing.invariants import assert_at_rest

COMMIT = """
import pickle, sys
from omnigraph.spark.source.table_writer import commit_write
commit_write(*pickle.load(open(sys.argv[1], "rb")))
"""
POINTS = (
    "commit.after_stage",
    "commit.after_arm",
    "commit.after_advance",
    "publish.after_stage",
    "publish.after_swap",
    "commit.after_publish",
)


def written(graph: Graph, batch: int, *names: str) -> tuple[object, ...]:
    """What `commit_write` is called with when executors have written these rows."""
    request = SaveRequest(graph.uri, "Person", "main", "append", None, None)
    begun = begin_write(request, ["name"])
    rows = [pa.record_batch({"name": list(names)})]
    result = run_batches(begun.plan, begun.source, rows, 0)
    return request, begun, [result], StreamBatch("query", batch)


def child(
    arguments: tuple[object, ...], folder: Path, **environment: str
) -> subprocess.Popen[bytes]:
    task = folder / f"task-{len(list(folder.glob('task-*')))}"
    task.write_bytes(pickle.dumps(arguments))
    return subprocess.Popen(
        [sys.executable, "-c", COMMIT, str(task)],
        env=os.environ | environment,
        stdout=subprocess.DEVNULL,
    )


def loads(graph: Graph) -> int:
    """Commits of batches: recovery may have added its own."""
    return sum(commit.operation == "load" for commit in graph.commits.list(limit=None))


@pytest.mark.crash
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_any_point_and_replayed(people: Graph, tmp_path: Path, point: str) -> None:
    killed = child(written(people, 0, "a", "b"), tmp_path, OMNIGRAPH_FAILPOINTS=f"{point}=kill")
    assert killed.wait(200) == -9
    # The replay's executors write their rows again; only one set of them may become visible.
    commit_write(*written(people, 0, "a", "b"))  # type: ignore[arg-type]
    assert not commit_write(*written(people, 1, "c")).repeated  # type: ignore[arg-type]
    assert sorted(people.read("Person")["id"].to_pylist()) == ["a", "b", "c"]
    assert loads(people) == 2
    assert_at_rest(people)


def test_two_drivers_with_the_same_batch(people: Graph, tmp_path: Path) -> None:
    both = [child(written(people, 0, "a", "b"), tmp_path) for _ in range(2)]
    assert [process.wait(200) for process in both] == [0, 0]
    assert sorted(people.read("Person")["id"].to_pylist()) == ["a", "b"]
    assert loads(people) == 1
    assert commit_write(*written(people, 0, "x")).repeated  # type: ignore[arg-type]
    assert_at_rest(people)

"""A driver of a stream is killed during a commit, and two drivers use one checkpoint."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from omnigraph.graph.handle import Graph
from omnigraph_testing.invariants import assert_at_rest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.crash,
    pytest.mark.xdist_group("spark_reads"),
    pytest.mark.timeout(1800),
]

DRIVER = """
import sys
from omnigraph.spark import spark_session, stop_session
from omnigraph.settings.models import PipelineSettings
folder, uri = sys.argv[1:]
spark = spark_session(PipelineSettings(master="local[1,4]", driver_memory="600m"))
query = (
    spark.readStream.schema("name string, age int").option("maxFilesPerTrigger", "1")
    .json(folder + "/in").writeStream.format("omnigraph").option("type", "Person")
    .option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start(uri)
)
query.awaitTermination()
stop_session()
"""
FILES, ROWS = 4, 3


def fill(folder: Path) -> None:
    (folder / "in").mkdir()
    for number in range(FILES):
        lines = (json.dumps({"name": f"p{number}-{row}", "age": row}) for row in range(ROWS))
        (folder / "in" / f"{number}.json").write_text("\n".join(lines))


def start(folder: Path, graph: Graph, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(folder), graph.uri],
        env=os.environ | environment,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def kill(process: subprocess.Popen[bytes]) -> None:
    """The driver, its JVM and its Python workers, all at once, as a machine would take them."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def loads(graph: Graph) -> int:
    """Commits of batches: recovery may have added its own."""
    return sum(commit.operation == "load" for commit in graph.commits.list(limit=None))


def assert_once(graph: Graph) -> None:
    names = graph.read("Person")["name"].to_pylist()
    assert sorted(names) == sorted(f"p{n}-{r}" for n in range(FILES) for r in range(ROWS))
    assert loads(graph) == FILES
    assert_at_rest(graph)


def wait_until(graph: Graph, wanted: int, process: subprocess.Popen[bytes]) -> None:
    while loads(graph) < wanted and process.poll() is None:
        time.sleep(0.02)


def test_kill_9_of_the_driver_at_any_commit(people: Graph, tmp_path: Path) -> None:
    fill(tmp_path)
    # Killed right behind the first and the second batch's commit: Spark has not noted it yet.
    for wanted in (1, 2):
        process = start(tmp_path, people)
        wait_until(people, wanted, process)
        kill(process)
    last = start(tmp_path, people)
    assert last.wait(900) == 0
    assert_once(people)


def test_two_drivers_on_one_checkpoint(people: Graph, tmp_path: Path) -> None:
    fill(tmp_path)
    both = [start(tmp_path, people) for _ in range(2)]
    for process in both:
        process.wait(900)
    last = start(tmp_path, people)
    assert last.wait(900) == 0
    assert_once(people)

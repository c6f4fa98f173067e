"""Loads on real clusters from the pip package: executors are processes of their own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from omnigraph.pipeline.java import find_java

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]

CODE = """
import json, os, sys
import omnigraph
from omnigraph.pipeline import spark_load
from omnigraph.pipeline.load_tasks import run_tasks
from omnigraph.pipeline.session import stop_session
from omnigraph.settings.models import Settings
from omnigraph.settings.pipeline import PipelineSettings

folder, master = sys.argv[1:]
conf = (
    ("spark.driver.host", "127.0.0.1"),
    ("spark.executor.memory", "600m"),
    ("spark.speculation", "true"),
)
pipeline = PipelineSettings(master=master, driver_memory="600m", conf=conf, task_bytes=4000)
graph = omnigraph.init(folder + "/g", "node P {{ name: String @key }} edge K: P -> P",
                       settings=Settings(pipeline=pipeline))
with open(folder + "/data.ndjson", "w") as file:
    for i in range(500):
        file.write(json.dumps({{"type": "P", "data": {{"name": f"p{{i}}"}}}}) + "\\n")
        edge = {{"edge": "K", "from": f"p{{i}}", "to": f"p{{(i * 7) % 500}}"}}
        file.write(json.dumps(edge) + "\\n")
marker = folder + "/died"

def deadly(plan, pieces):
    run = run_tasks(plan, pieces)
    def once(batches):
        import os
        for result in run(batches):
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                yield result
                continue
            os.kill({victim}, 9)
    return once

spark_load.run_tasks = deadly
receipt = graph.load(folder + "/data.ndjson", engine="spark")
names = graph.read("P")["id"].to_pylist()
print(receipt.total_entities, len(names), len(set(names)), graph.read("K").num_rows,
      os.path.exists(marker), len(graph.commits.list()))
stop_session()
"""
EXPECTED = "1000 500 500 500 True 2"


def load_on(master: str, folder: Path, victim: str) -> None:
    code = textwrap.dedent(CODE).format(victim=victim)
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder), master],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == EXPECTED


def parent_of(steps: int) -> str:
    """An expression for the process so many levels above a worker: 2 is its executor's JVM."""
    up = "os.getpid()"
    for _ in range(steps):
        up = f"int(open('/proc/%d/stat' % {up}).read().rpartition(')')[2].split()[1])"
    return up


@pytest.mark.parametrize("steps", [0, 2], ids=["worker", "executor"])
def test_local_cluster_survives_a_killed_process(tmp_path: Path, steps: int) -> None:
    load_on("local-cluster[2,1,700]", tmp_path, parent_of(steps))


def test_a_standalone_master_with_two_workers(tmp_path: Path) -> None:
    with standalone(tmp_path) as master:
        load_on(master, tmp_path, parent_of(0))


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    home = Path(pyspark.__file__).parent
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(find_java(os.environ).home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
    }
    master = f"spark://127.0.0.1:{port}"
    base = [str(home / "bin" / "spark-class"), "org.apache.spark.deploy"]
    worker = [base[0], f"{base[1]}.worker.Worker", "-c", "1", "-m", "700m", "--host", "127.0.0.1"]
    commands = [
        [base[0], f"{base[1]}.master.Master", "--host", "127.0.0.1", "--port", str(port),
         "--webui-port", "0"],
        [*worker, "--webui-port", "0", master],
        [*worker, "--webui-port", "0", master],
    ]  # fmt: skip
    with (folder / "cluster.log").open("wb") as log:
        running = []
        try:
            for command in commands:
                running.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
                wait_for(port)
            yield master
        finally:
            for process in reversed(running):
                process.terminate()
            for process in running:
                process.wait(60)


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError("the master did not start")

"""One load on a master, during which one attempt of one task gets into trouble after it wrote.

Run as a program: what is defined here then reaches the workers by value.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import omnigraph
from omnigraph.pipeline import spark_load
from omnigraph.pipeline.load_tasks import run_tasks
from omnigraph.pipeline.session import stop_session
from omnigraph.settings.models import Settings
from omnigraph.settings.pipeline import PipelineSettings

PEOPLE = 300


def parent(process: int) -> int:
    stat = Path(f"/proc/{process}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def fail() -> None:
    raise RuntimeError("a task in trouble")


def kill_worker() -> None:
    os.kill(os.getpid(), 9)


def kill_executor() -> None:
    """Two levels above a worker: its daemon's JVM."""
    os.kill(parent(parent(os.getpid())), 9)


def straggle() -> None:
    import time

    time.sleep(90)


TROUBLES: dict[str, Callable[[], None]] = {
    "fail": fail,
    "worker": kill_worker,
    "executor": kill_executor,
    "straggler": straggle,
}


def once(marker: str, trouble: Callable[[], None]) -> Any:
    def troubled(plan: Any, pieces: Any) -> Any:
        run = run_tasks(plan, pieces)

        def attempt(batches: Any) -> Any:
            for result in run(batches):
                try:
                    os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    yield result
                    continue
                trouble()
                yield result

        return attempt

    return troubled


def main(folder: str, master: str, trouble: str) -> None:
    conf = (
        ("spark.driver.host", "127.0.0.1"),
        ("spark.executor.memory", "600m"),
        ("spark.speculation", "true"),
        ("spark.speculation.minTaskRuntime", "1s"),
    )
    pipeline = PipelineSettings(master=master, driver_memory="600m", conf=conf, task_bytes=4000)
    graph = omnigraph.init(
        f"{folder}/g",
        "node P { name: String @key } edge K: P -> P",
        settings=Settings(pipeline=pipeline),
    )
    with Path(folder, "data.ndjson").open("w") as file:
        for i in range(PEOPLE):
            file.write(json.dumps({"type": "P", "data": {"name": f"p{i}"}}) + "\n")
            ends = {"edge": "K", "from": f"p{i}", "to": f"p{(i * 7) % PEOPLE}"}
            file.write(json.dumps(ends) + "\n")
    marker = f"{folder}/troubled"
    spark_load.run_tasks = once(marker, TROUBLES[trouble])
    receipt = graph.load(f"{folder}/data.ndjson", engine="spark")
    names = graph.read("P")["id"].to_pylist()
    found = {
        "loaded": receipt.total_entities,
        "people": [len(names), len(set(names))],
        "edges": graph.read("K").num_rows,
        "commits": len(graph.commits.list()),
        "troubled": Path(marker).exists(),
    }
    stop_session()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])

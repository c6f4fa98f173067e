"""One load on a master, during which one attempt of one task gets into trouble after it wrote."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import omnigraph
from omnigraph.settings.models import PipelineSettings, Settings
from omnigraph.spark import stop_session
from omnigraph.spark.load import spark_load
from omnigraph.spark.load.load_tasks import run_tasks
from omnigraph_testing.spark_clusters import TROUBLES, in_trouble_once

PEOPLE = 300


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
    spark_load.run_tasks = in_trouble_once(run_tasks, marker, TROUBLES[trouble])
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

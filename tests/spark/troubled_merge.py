"""One merge, and indexes built, on a master; one attempt of one task gets into trouble."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import omnigraph
from omnigraph.settings.models import PipelineSettings, Settings
from omnigraph.spark import stop_session
from omnigraph.spark.merge import spark_merge
from omnigraph.spark.merge.merge_tasks import merge_tasks
from omnigraph_testing.graph_helpers import with_parts
from omnigraph_testing.spark_clusters import TROUBLES, in_trouble_once

PEOPLE = 300


def main(folder: str, master: str, trouble: str) -> None:
    conf = (
        ("spark.driver.host", "127.0.0.1"),
        ("spark.executor.memory", "600m"),
        ("spark.speculation", "true"),
        ("spark.speculation.minTaskRuntime", "1s"),
    )
    pipeline = PipelineSettings(master=master, driver_memory="600m", conf=conf)
    schema = "node P { name: String @key  n: I32 @index } edge K: P -> P"
    made = omnigraph.init(f"{folder}/g", schema, settings=Settings(pipeline=pipeline))
    merger = replace(made.engine.spark_merger, ids_per_task=40, few_ids=0)
    upkeep = replace(made.engine.spark_upkeep, rows_per_part=1)
    graph = with_parts(made, spark_merger=merger, spark_upkeep=upkeep)
    people = [{"name": f"p{i}", "n": i} for i in range(PEOPLE)]
    graph.apply({"P": {"insert": people[: PEOPLE // 2]}})
    graph.branches.create("b")
    edges = [{"from": f"p{i}", "to": f"p{i * 7 % PEOPLE}"} for i in range(PEOPLE)]
    older = [{**person, "n": -1} for person in people[: PEOPLE // 2 : 2]]
    newer = people[PEOPLE // 2 :]
    graph.apply({"P": {"insert": newer, "upsert": older}, "K": {"insert": edges}}, "b")
    marker = f"{folder}/troubled"
    spark_merge.merge_tasks = in_trouble_once(merge_tasks, marker, TROUBLES[trouble])
    merged = graph.merge("b", engine="spark")
    busy = graph.ensure_indices(engine="spark")
    names = graph.read("P")["id"].to_pylist()
    found = {
        "outcome": [merged.outcome, merged.engine, busy],
        "people": [len(names), len(set(names))],
        "same": graph.diff("b", "main") == [],
        "edges": graph.read("K").num_rows,
        "verified": graph.verify(full=True).ok,
        "troubled": Path(marker).exists(),
    }
    stop_session()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])

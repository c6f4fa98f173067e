"""A load, a refused one, a DataFrame, an export and a merge through Connect. Run as a program."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import omnigraph
from omnigraph.errors import NotFound, ValidationFailed
from omnigraph.settings.models import PipelineSettings, Settings
from omnigraph.spark import spark_session, stop_session
from omnigraph.spark.session import running_session
from omnigraph_testing.graph_helpers import with_parts

SCHEMA = "node P { name: String @key  age: I32? } edge K: P -> P"


def lines(graph: omnigraph.Graph) -> list[str]:
    sink = io.BytesIO()
    graph.export(sink, types=["P"])
    return sink.getvalue().decode().splitlines()


def main(folder: str, master: str) -> None:
    settings = Settings(pipeline=PipelineSettings(master=master, task_bytes=4000))
    graph = omnigraph.init(f"{folder}/g", SCHEMA, settings=settings)
    data = Path(folder, "data.ndjson")
    rows = [json.dumps({"type": "P", "data": {"name": f"p{i}", "age": i}}) for i in range(300)]
    ends = [json.dumps({"edge": "K", "from": f"p{i}", "to": "p0"}) for i in range(300)]
    data.write_text("\n".join([*rows, *ends]))
    loaded = graph.load(data, engine="spark")
    data.write_text('{"edge":"K","from":"p1","to":"nobody"}')
    try:
        graph.load(data, engine="spark")
    except ValidationFailed as error:
        refused = error.message
    session = spark_session(settings.pipeline)
    assert running_session() is session
    frame = session.createDataFrame([("q1", 1), ("q2", 2)], "name string, age int")
    framed = graph.load(frame, type="P")
    try:
        session.read.format("omnigraph").option("type", "Q").load(graph.uri).count()
    except NotFound as error:
        unknown = error.fields
    graph.export(f"{folder}/out", format="parquet", engine="spark")
    again = omnigraph.init(f"{folder}/again", SCHEMA)
    again.load(f"{folder}/out", engine="local")
    round_trip = lines(again) == lines(graph)
    again.branches.create("b")
    again.apply({"P": {"insert": [{"name": "r1"}, {"name": "r2"}], "delete": ["q1"]}}, "b")
    remote = omnigraph.open(again.uri, settings=settings)
    few = replace(remote.engine.spark_merger, few_ids=0, ids_per_task=1)
    merged = with_parts(remote, spark_merger=few).merge("b", engine="spark")
    busy = remote.optimize(engine="spark")
    stop_session()
    found = {
        "merged": [merged.outcome, merged.engine, again.diff("b", "main") == [], busy],
        "kind": type(session).__module__,
        "loaded": loaded.total_entities,
        "engine": [loaded.engine, framed.engine, framed.engine_reason],
        "refused": refused.partition(": ")[2],
        "unknown": unknown,
        "people": len(lines(graph)),
        "round trip": round_trip,
        "edges": again.read("K").num_rows,
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Queries through Spark Connect: conformance cases, many tasks, errors. Run as a program."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from test_spark_conformance import EVERY, SHARED

from omnigraph import init
from omnigraph.errors import OmnigraphError
from omnigraph.graph.handle import Graph
from omnigraph.settings.models import PipelineSettings
from omnigraph.spark import spark_session, stop_session
from omnigraph.spark.session import running_session
from omnigraph.writes.shape import Edit
from omnigraph_testing.executor_suite import ConformanceCase, check_conformance
from omnigraph_testing.suite_executors import SparkGraphs


def failures(cases: list[ConformanceCase], on_spark: SparkGraphs) -> list[str]:
    found = []
    for case in cases:
        try:
            check_conformance(case, on_spark.run)
        except (AssertionError, OmnigraphError) as error:
            found.append(f"{case}: {error}"[:600])
    return found


def refusal(graph: Graph, text: str, **options: Any) -> str:
    try:
        graph.query(text, engine="spark", **options).to_arrow()
    except OmnigraphError as error:
        return error.code
    return "none"


def large_answer(graph: Graph) -> bool:
    text = (
        "query q() { match { $p: P $q: P } return { $p.name, $q.name, $q.n } order { $q.n desc } }"
    )
    local, found = graph.query(text).to_arrow(), graph.query(text, engine="spark").to_arrow()
    return bool(found.combine_chunks().equals(local.combine_chunks())) and found.num_rows == 40_000


def main(folder: str, master: str) -> None:
    session = spark_session(PipelineSettings(master=master))
    on_spark = SparkGraphs(Path(folder))
    graph = init(f"{folder}/g", "node P { name: String @key  n: I64 }")
    graph.apply({"P": Edit(insert=[{"name": f"p{i}", "n": i} for i in range(200)])})
    wrong = failures(SHARED[::EVERY], on_spark)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("omnigraph.spark.query.executor.SMALL_ROWS", -1)
        wrong += failures(SHARED[1 :: 5 * EVERY], on_spark)
        large = large_answer(graph)
    zero = "query q() { match { $p: P } return { 1 / $p.n as x } }"
    near = "query q() { match { $p: P } return { $p.name } order { nearest($p.v, [1]) } limit 1 }"
    every = "query q() { match { $p: P } return { $p.name } }"
    found = {
        "kind": type(session).__module__.startswith("pyspark.sql.connect."),
        "wrong": wrong,
        "large answer": large,
        "division by zero": refusal(graph, zero),
        "no such property": refusal(graph, near),
        "too late": refusal(graph, every, timeout=0.0),
        "session": running_session() is session,
    }
    stop_session()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])

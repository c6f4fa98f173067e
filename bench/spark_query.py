"""Heavy queries on both engines: what a query costs on Spark, and that the answers are the same."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import omnigraph
from bench import social
from bench.harness import Figure, report
from bench.query import QUERIES, load
from omnigraph.graph.handle import Graph
from omnigraph.settings.models import PipelineSettings
from omnigraph.spark import spark_session, stop_session

PERSONS = {"small": 20_000, "full": 1_000_000}
NAMES = ("f", "g", "h", "i", "j")
FIRST = "query q() { match { $p: Person $p worksAt $c } return { count($c) as n } }"


def run(scale: str) -> None:
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        graph = load(Path(folder) / "graph", social.make(PERSONS[scale]))
        compare(graph, PERSONS[scale])


def compare(graph: Graph, persons: int) -> None:
    """Both engines on one graph; the local one reads the graph in its first query."""
    spark_session(PipelineSettings(driver_memory="2g"))
    # The start of Spark's workers is no part of a query.
    graph.query(FIRST, engine="spark").to_pylist()
    figures = []
    for name in NAMES:
        what, text, _ = QUERIES[name]
        fresh = omnigraph.open(graph.uri, read_only=True)
        local, expected = measured(lambda text=text, g=fresh: g.query(text).to_pylist())
        spark, found = measured(lambda text=text: graph.query(text, engine="spark").to_pylist())
        assert found == expected, name
        figures.append(
            Figure(f"{name} {what}", spark, local, "s", "<= 20", against="the local engine")
        )
    notes = [
        f"{persons:,} persons; reference = the local engine, its first query of an open graph",
        "Spark: the second query of a session and those after it",
    ]
    report("spark_query", figures, notes)
    stop_session()


def measured(action: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    found = action()
    return time.perf_counter() - began, found

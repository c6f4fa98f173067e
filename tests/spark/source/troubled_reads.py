"""A scan with the format, and a query, whose readers die. Also runs as a program."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import dying_readers
import pytest

import omnigraph
from omnigraph.graph.handle import Graph
from omnigraph.settings.models import PipelineSettings, Settings
from omnigraph.spark import spark_session, stop_session
from omnigraph.spark.query import graph_tables
from omnigraph_testing.spark_clusters import TROUBLES

COMMITS, EACH = 4, 100
PEOPLE = COMMITS * EACH
QUERY = """query q() {
  match { $p: P  $p k{1,2} $q  $q.n > 5 }
  return { $p.n, $p.name, count($q) as met, sum($q.n) as total }
  order { $p.n }
}"""


def make_graph(folder: Path, settings: Settings | None = None) -> Graph:
    """Every commit a fragment; everybody knows two others."""
    graph = omnigraph.init(
        folder / "g", "node P { name: String @key  n: I64 }\nedge K: P -> P", settings=settings
    )
    for commit in range(COMMITS):
        numbers = range(commit * EACH, (commit + 1) * EACH)
        graph.apply({"P": {"insert": [{"name": f"p{i}", "n": i} for i in numbers]}})
    for commit in range(COMMITS):
        numbers = range(commit * EACH, (commit + 1) * EACH)
        ends = [(i, (i * step + 1) % PEOPLE) for i in numbers for step in (3, 7)]
        graph.apply({"K": {"insert": [{"from": f"p{a}", "to": f"p{b}"} for a, b in ends]}})
    return graph


def scan(session: Any, graph: Graph, folder: Path, name: str) -> dict[str, Any]:
    """Rows and their sum through a format whose readers die."""
    died = folder / f"scan-{name}"
    died.mkdir()
    session.dataSource.register(
        dying_readers.dying_source(f"dying_{name}", str(died), TROUBLES[name])
    )
    reader = session.read.format(f"dying_{name}").option("type", "P")
    frame = reader.option("rows_per_partition", "1").load(graph.uri)
    rows = sorted(tuple(row) for row in frame.collect())
    assert rows == sorted((f"p{i}", f"p{i}", i) for i in range(PEOPLE))
    return {"deaths": dying_readers.deaths(died)}


def query(graph: Graph, folder: Path, name: str) -> dict[str, Any]:
    """The answer of the local engine, from executors that die."""
    died = folder / f"query-{name}"
    died.mkdir()
    expected = graph.query(QUERY).to_arrow()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("omnigraph.spark.query.executor.SMALL_ROWS", -1)
        patch.setattr(graph_tables, "_ROWS_PER_TASK", 1)
        dying_readers.make_queries_die(patch, str(died), TROUBLES[name])
        found = graph.query(QUERY, engine="spark").to_arrow()
    assert expected.num_rows == PEOPLE
    assert found.combine_chunks().equals(expected.combine_chunks())
    return {"deaths": dying_readers.deaths(died)}


def main(folder: str, master: str, *names: str) -> None:
    conf = (("spark.driver.host", "127.0.0.1"), ("spark.executor.memory", "600m"))
    pipeline = PipelineSettings(master=master, driver_memory="600m", conf=conf)
    graph = make_graph(Path(folder), Settings(pipeline=pipeline))
    session = spark_session(pipeline)
    found = {
        name: [scan(session, graph, Path(folder), name), query(graph, Path(folder), name)]
        for name in names
    }
    stop_session()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])

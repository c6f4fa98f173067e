"""The Spark format: scans against raw Lance and Parquet, writes against `load`, micro-batches.

One session, warmed before anything is timed; every figure is the best of some runs in seconds, next
to its reference of the same run. A scan goes into Spark's `noop` sink: rows cross into the JVM.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance

from bench.harness import Figure, p50, report
from bench.pipeline import SCHEMA, generate
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.settings.models import PipelineSettings
from omnigraph.spark import spark_session, stop_session

ROWS = {"small": 200_000, "full": 5_000_000}
_REPEATS = 3
_BATCHES = 5


def run(scale: str) -> None:
    rows = ROWS[scale]
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        root = Path(folder)
        generate(root, rows, 1, ("parquet",))
        spark = spark_session(PipelineSettings(master="local[2]", driver_memory="2g"))
        graph = init(root / "read.omni", SCHEMA)
        graph.load(root / "Person.parquet", engine="local", progress=False)
        figures = [*scans(spark, graph, root), *writes(spark, root), *batches(spark, root)]
        notes = [
            f"scale {scale}: {rows:,} rows of id, name, age, city",
            f"scan through the format {rows / figures[0].ours:,.0f} rows/s",
            f"write through the format {rows / figures[3].ours:,.0f} rows/s",
        ]
        stop_session()
        report("spark", figures, notes)


def scans(spark: Any, graph: Graph, root: Path) -> list[Figure]:
    pin = graph.snapshot().pin(graph.snapshot().catalog.resolve("Person").table_key)
    address = graph.engine.store.dataset_uri(pin.location, pin.branch)

    def ours(**options: str) -> None:
        frame = spark.read.format("omnigraph").option("type", "Person").options(**options)
        frame.load(graph.uri).write.format("noop").mode("overwrite").save()

    def parquet() -> None:
        frame = spark.read.parquet(str(root / "Person.parquet"))
        frame.write.format("noop").mode("overwrite").save()

    def raw() -> None:
        for _ in lance.dataset(address, version=pin.version).scanner().to_batches():
            pass

    ours()
    parquet()
    scan, few = best(ours), best(lambda: ours(columns="id,age", filter="age < 9"))
    return [
        Figure("scan, format / raw Lance", scan, best(raw), "s", "stated", against="raw Lance"),
        Figure(
            "scan, format / Parquet in Spark",
            scan,
            best(parquet),
            "s",
            "stated",
            against="Parquet in Spark",
        ),
        Figure(
            "two columns, a tenth of the rows / whole scan",
            few,
            scan,
            "s",
            "< 1",
            against="our own, the whole scan",
        ),
    ]


def writes(spark: Any, root: Path) -> list[Figure]:
    frame = spark.read.parquet(str(root / "Person.parquet"))

    def empty() -> Graph:
        shutil.rmtree(root / "write.omni", ignore_errors=True)
        return init(root / "write.omni", SCHEMA)

    def timed(action: Callable[[Graph], object]) -> float:
        found = []
        for _ in range(_REPEATS):
            graph = empty()
            began = time.perf_counter()
            action(graph)
            found.append(time.perf_counter() - began)
        return min(found)

    def ours(graph: Graph) -> None:
        frame.write.format("omnigraph").option("type", "Person").mode("append").save(graph.uri)

    file = root / "Person.parquet"
    format_write = timed(ours)
    local = timed(lambda g: g.load(file, engine="local", progress=False))
    on_spark = timed(lambda g: g.load(file, engine="spark", progress=False))
    return [
        Figure(
            "write, format / load local",
            format_write,
            local,
            "s",
            "stated",
            against="our own, a local load",
        ),
        Figure(
            "write, format / load on Spark",
            format_write,
            on_spark,
            "s",
            "stated",
            against="our own, a load on Spark",
        ),
    ]


def batches(spark: Any, root: Path) -> list[Figure]:
    """From a file that appears to its commit that can be read, one batch after the other."""
    graph = init(root / "stream.omni", SCHEMA)
    arrivals = root / "arrivals"
    arrivals.mkdir()
    (root / "out").mkdir()
    stream = spark.readStream.schema("name string, age int")
    sinks = {
        "format": lambda s: s.format("omnigraph").option("type", "Person").start(graph.uri),
        "parquet": lambda s: s.format("parquet").start(str(root / "out" / "rows")),
    }
    medians = {}
    for name, sink in sinks.items():
        source = stream.json(str(arrivals)).writeStream
        query = sink(source.option("checkpointLocation", str(root / f"checkpoint-{name}")))
        taken = []
        for number in range(_BATCHES + 2):
            began = time.perf_counter()
            lines = (json.dumps({"name": f"{name}{number}-{i}", "age": i}) for i in range(100))
            unfinished = root / "unfinished.json"
            unfinished.write_text("\n".join(lines))
            unfinished.rename(arrivals / f"{name}-{number}.json")
            query.processAllAvailable()
            taken.append(time.perf_counter() - began)
        query.stop()
        medians[name] = p50(taken[2:]) * 1000
    ours, parquet = medians["format"], medians["parquet"]
    return [
        Figure(
            "micro-batch of 100 rows, format / Parquet sink",
            ours,
            parquet,
            "ms",
            "stated",
            against="Spark's Parquet sink",
        )
    ]


def best(action: Callable[[], object]) -> float:
    found = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        action()
        found.append(time.perf_counter() - began)
    return min(found)

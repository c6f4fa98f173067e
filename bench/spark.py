"""The Spark format: scans against raw Lance and Parquet, writes against `load`, micro-batches.

One session, warmed before anything is timed; every figure is the best of some runs in seconds, next
to its reference of the same run. A scan goes into Spark's `noop` sink: rows cross into the JVM.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from bench.harness import Figure, p50, report
from bench.pipeline import SCHEMA, generate
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.settings.models import PipelineSettings
from omnigraph.spark import spark_session, stop_session

ROWS = {"small": 200_000, "full": 5_000_000}
_REPEATS = 3
_BATCHES = 5
_BATCH = 16 * 1024
_SPARK_NAMES = {pa.string(): "string", pa.int32(): "int", pa.int64(): "bigint"}


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
            *(
                f"{what} through the format {rows / found.ours:,.0f} rows/s"
                for what in ("scan", "write")
                for found in [next(f for f in figures if f.name.startswith(what))]
            ),
        ]
        stop_session()
        report("spark", figures, notes)


def scans(spark: Any, graph: Graph, root: Path) -> list[Figure]:
    pin = graph.snapshot().pin(graph.snapshot().catalog.resolve("Person").table_key)
    address = graph.engine.store.dataset_uri(pin.location, pin.branch)

    def ours(**options: str) -> None:
        frame = spark.read.format("omnigraph").option("type", "Person").options(**options)
        frame.load(graph.uri).write.format("noop").mode("overwrite").save()

    # The input has no ids. A scan gives them, so Parquet of the same rows has them, too.
    same_rows = root / "same_rows.parquet"
    pq.write_table(lance.dataset(address, version=pin.version).to_table(), same_rows)

    def parquet() -> None:
        frame = spark.read.parquet(str(same_rows))
        frame.write.format("noop").mode("overwrite").save()

    def raw() -> None:
        for _ in lance.dataset(address, version=pin.version).scanner().to_batches():
            pass

    batch = next(iter(lance.dataset(address, version=pin.version).to_batches(batch_size=_BATCH)))
    spark.dataSource.register(one_batch(batch, pin.row_count))

    def floor() -> None:
        frame = spark.read.format("one_batch").load()
        frame.write.format("noop").mode("overwrite").save()

    ours()
    parquet()
    floor()
    scan, few = best(ours), best(lambda: ours(columns="id,age", filter="age < 9"))
    return [
        Figure("scan, format / raw Lance", scan, best(raw), "s", "stated", against="raw Lance"),
        Figure(
            "scan, format / Parquet in Spark",
            scan,
            best(parquet),
            "s",
            "<= 1.3",
            against="Parquet in Spark",
        ),
        Figure(
            "scan, format / a Python format that reads nothing",
            scan,
            best(floor),
            "s",
            "stated",
            against="one batch, sent again and again",
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


def one_batch(batch: pa.RecordBatch, rows: int) -> type[DataSource]:
    """A format that sends as many rows as a scan has, in two tasks, and does nothing else.

    No format in Python is faster. The classes are made here, so that workers need no module.
    """
    sent = pa.RecordBatch.from_arrays(batch.columns, names=batch.schema.names)
    times = rows // sent.num_rows // 2
    fields = ", ".join(f"{f.name} {_SPARK_NAMES[f.type]}" for f in sent.schema)

    class Reader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(0), InputPartition(1)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            for _ in range(times):
                yield sent

    class OneBatch(DataSource):
        @classmethod
        def name(cls) -> str:
            return "one_batch"

        def schema(self) -> str:
            return fields

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

    return OneBatch


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

    def count_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [sum(batch.num_rows for batch in batches)]})

    def floor(_: Graph) -> None:
        frame.mapInArrow(count_rows, "n bigint").collect()

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
            "<= 2",
            against="our own, a local load",
        ),
        Figure(
            "write, format / rows that Python only counts",
            format_write,
            timed(floor),
            "s",
            "stated",
            against="the same rows from Spark to Python",
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

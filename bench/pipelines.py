"""Declared pipelines against hand-written PySpark jobs, an empty increment, and driver memory.

Every side runs in a process of its own; CPU is that of its whole tree (JVM, Python workers). The
hand-written job computes the same nodes and edges and writes them as Parquet, without any check.
Entity resolution is compared with the same in Spark SQL: a join of the records of a block, and
joins that carry the smallest id along the pairs until no id changes.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from bench.harness import Figure, report
from bench.peak_memory import peak_of_this_process
from bench.process_tree import Side
from omnigraph.settings.models import PipelineSettings
from omnigraph.spark import pipelines, spark_session, stop_session
from omnigraph.spark.pipelines.model import (
    CompareBy,
    ComparedColumn,
    ResolveOptions,
    ResolveOutput,
)
from omnigraph.spark.pipelines.resolve import resolve_frame

SIZES = {"small": (100_000, 400_000), "full": (5_000_000, 20_000_000)}
DRIVER_ROWS = {"small": (100_000, 400_000), "full": (1_000_000, 20_000_000)}
RECORDS = {"small": 50_000, "full": 1_000_000}
_PART = 500_000
_BLOCK = 10
_CITIES, _FIRMS = 1000, 20_000

SCHEMA = """
node Person { name: String @key  age: I32?  city: String?  country: String?  firm: String? }
edge Knows: Person -> Person { since: I32? }
"""
PEOPLE = """
SELECT lower(trim(p.name)) AS name, CAST(p.age AS INT) AS age, c.city, c.country, f.firm
FROM raw p JOIN cities c ON p.city_code = c.code LEFT JOIN firms f ON p.firm_code = f.code
WHERE p.name IS NOT NULL
"""
KNOWS = "SELECT a, b, since FROM pairs WHERE a <> b"
FILE = f"""
version: 1
name: people
graph: people.omni
schema: people.pg
sources:
  raw: {{files: "people/*.csv", format: csv, options: {{header: true}}, incremental: files}}
  cities: {{files: cities.csv, format: csv, options: {{header: true}}, incremental: files}}
  firms: {{files: firms.csv, format: csv, options: {{header: true}}, incremental: files}}
  pairs: {{files: "pairs/*.parquet", incremental: files}}
steps:
  people:
    sql: {json.dumps(" ".join(PEOPLE.split()))}
    expect:
      - {{check: "name RLIKE '^p[0-9]+$'", on_fail: quarantine}}
      - {{check: "age BETWEEN 0 AND 150", on_fail: warn}}
      - {{check: "city IS NOT NULL", on_fail: fail}}
  knows: {{sql: {json.dumps(KNOWS)}}}
targets:
  - {{type: Person, from: people, mode: append}}
  - {{type: Knows, from: knows, mode: append, ends: {{from: a, to: b}}, map: {{since: since}}}}
"""


def run(scale: str) -> None:
    nodes, edges = SIZES[scale]
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        root = Path(folder)
        generate(root, nodes, edges)
        ours, plain = (child(side, root) for side in ("ours", "plain"))
        told = json.loads((root / "ours.json").read_text())
    few, many = DRIVER_ROWS[scale]
    peaks = {edges: told["driver_bytes"]}
    for rows in {few, many} - peaks.keys():
        with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
            root = Path(folder)
            generate(root, rows // 4, rows)
            child("ours", root)
            peaks[rows] = json.loads((root / "ours.json").read_text())["driver_bytes"]
    records = RECORDS[scale]
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        root = Path(folder)
        generate_records(root, records)
        resolved, joined = (child(side, root) for side in ("resolve", "joins"))
        assert entities(root / "resolve") == entities(root / "joins")
    full = scale == "full"
    figures = [
        Figure(
            "run / hand-written PySpark job, CPU",
            ours.cpu,
            plain.cpu,
            "s",
            "<= 1.6" if full else "stated",
            against="PySpark, the same rows as Parquet, nothing checked",
        ),
        Figure(
            "run / hand-written PySpark job, wall",
            ours.wall,
            plain.wall,
            "s",
            "stated",
            against="PySpark, the same rows as Parquet, nothing checked",
        ),
        Figure(
            "empty increment, warm session",
            told["empty"],
            math.nan,
            "s",
            "< 3 s",
            against="a bound",
        ),
        Figure(
            f"memory of the driver, {many:,} rows / {few:,}",
            peaks[many] / 2**20,
            peaks[few] / 2**20,
            "MiB",
            "<= 1.3" if full else "stated",
            against="our own, fewer rows",
        ),
        Figure(
            f"entity resolution of {records:,} records / Spark SQL, CPU",
            resolved.cpu,
            joined.cpu,
            "s",
            "<= 1" if full else "stated",
            against="Spark SQL: the same pairs and ids by joins",
        ),
        Figure(
            f"entity resolution of {records:,} records / Spark SQL, wall",
            resolved.wall,
            joined.wall,
            "s",
            "stated",
            against="Spark SQL: the same pairs and ids by joins",
        ),
    ]
    head, many_records = f"{nodes:,} nodes + {edges:,} edges", f"{records:,} records"
    notes = [
        f"{head}, ours: {ours}",
        f"{head}, hand-written: {plain}",
        f"{many_records}, ours: {resolved}",
        f"{many_records}, Spark SQL: {joined}",
    ]
    report("pipelines", figures, notes)


def generate(root: Path, nodes: int, edges: int) -> None:
    chance = np.random.default_rng(1)
    (root / "people").mkdir(parents=True)
    (root / "pairs").mkdir()
    (root / "people.pg").write_text(SCHEMA)
    (root / "people.yaml").write_text(FILE)
    codes = [f"C{n}" for n in range(_CITIES)]
    cities = {"code": codes, "city": [f"city {n}" for n in range(_CITIES)], "country": codes}
    pa_csv.write_csv(pa.table(cities), root / "cities.csv")
    firms = {"code": list(range(_FIRMS)), "firm": [f"firm {n}" for n in range(_FIRMS)]}
    pa_csv.write_csv(pa.table(firms), root / "firms.csv")
    for start in range(0, nodes, _PART):
        count = min(_PART, nodes - start)
        rows = {
            "name": [f" P{n} " for n in range(start, start + count)],
            "age": chance.integers(0, 100, count),
            "city_code": [f"C{n}" for n in chance.integers(0, _CITIES, count)],
            "firm_code": chance.integers(0, 2 * _FIRMS, count),
        }
        pa_csv.write_csv(pa.table(rows), root / f"people/{start}.csv")
    for start in range(0, edges, 4 * _PART):
        count = min(4 * _PART, edges - start)
        ends = chance.integers(0, nodes, (2, count))
        rows = {
            "a": pa.array([f"p{n}" for n in ends[0]]),
            "b": pa.array([f"p{n}" for n in ends[1]]),
            "since": pa.array(chance.integers(1990, 2026, count), pa.int32()),
        }
        pq.write_table(pa.table(rows), root / f"pairs/{start}.parquet")


def child(side: str, root: Path) -> Side:
    arguments = [sys.executable, "-m", "bench.pipelines", side, str(root)]
    temporary = root / "temporary"
    temporary.mkdir(exist_ok=True)
    return Side(subprocess.Popen(arguments), temporary)


def ours(root: Path) -> None:
    spark = spark_session(PipelineSettings(master="local[2,4]"))
    loaded = pipelines.load(root / "people.yaml")
    done = loaded.run(spark).raise_if_failed()
    assert done.commit is not None
    began = time.perf_counter()
    assert loaded.run(spark).commit is None
    empty = time.perf_counter() - began
    peak = peak_of_this_process()
    (root / "ours.json").write_text(json.dumps({"empty": empty, "driver_bytes": peak}))
    stop_session()


def plain(root: Path) -> None:
    """What a data engineer would write: no checks, no graph, no increments."""
    spark = spark_session(PipelineSettings(master="local[2,4]"))
    header = {"header": "true"}
    spark.read.options(**header).csv(str(root / "people")).createOrReplaceTempView("raw")
    for name in ("cities", "firms"):
        frame = spark.read.options(**header).csv(str(root / f"{name}.csv"))
        frame.createOrReplaceTempView(name)
    spark.read.parquet(str(root / "pairs")).createOrReplaceTempView("pairs")
    spark.sql(PEOPLE).write.parquet(str(root / "out/people"))
    spark.sql(KNOWS).write.parquet(str(root / "out/knows"))
    stop_session()


# Entity resolution.

RESOLVE = ResolveOptions(
    input="records",
    key="id",
    block=("block",),
    compare=(
        ComparedColumn(column="name", by=CompareBy.EDIT, weight=0.7),
        ComparedColumn(column="email", by=CompareBy.EXACT, weight=0.3),
    ),
    threshold=0.8,
    id="entity",
    output=ResolveOutput.ROWS,
)
PAIRS = """
SELECT l.id AS a, r.id AS b FROM records l JOIN records r ON l.block = r.block AND l.id < r.id
WHERE 0.7 * (1 - levenshtein(l.name, r.name) / greatest(length(l.name), length(r.name)))
  + 0.3 * CASE WHEN l.email = r.email THEN 1 ELSE 0 END >= 0.8 - 1e-9
"""
LABELS = """
SELECT id, min(entity) AS entity FROM (
  SELECT id, entity FROM labels
  UNION ALL SELECT p.b, l.entity FROM pairs p JOIN labels l ON l.id = p.a
  UNION ALL SELECT p.a, l.entity FROM pairs p JOIN labels l ON l.id = p.b
) GROUP BY id
"""


def generate_records(root: Path, count: int) -> None:
    """Blocks of ten records: three people, each of them several times with typing errors."""
    chance = np.random.default_rng(2)
    people = chance.integers(0, 3, count) + 3 * (np.arange(count) // _BLOCK)
    letters = chance.integers(97, 123, (people.max() + 1, 14)).astype("uint8")
    names = letters[people]
    wrong = chance.random(count) < 0.3
    names[wrong, chance.integers(0, 14, count)[wrong]] = ord("x")
    rows = {
        "id": pa.array(np.arange(count)),
        "name": pa.array([bytes(row).decode() for row in names]),
        "email": pa.array([f"p{n}@example.org" for n in people]),
        "block": pa.array([f"b{n // _BLOCK}" for n in range(count)]),
    }
    pq.write_table(pa.table(rows), root / "records.parquet", row_group_size=count // 8)


def entities(folder: Path) -> pa.Table:
    """The entity of every record."""
    found = pq.read_table(folder, columns=["id", "entity"]).sort_by("id")
    assert found.num_rows
    return found.combine_chunks()


def resolve(root: Path) -> None:
    spark = spark_session(PipelineSettings(master="local[2,4]"))
    records = spark.read.parquet(str(root / "records.parquet"))
    resolve_frame(spark, records, RESOLVE).write.parquet(str(root / "resolve"))
    stop_session()


def joins(root: Path) -> None:
    spark = spark_session(PipelineSettings(master="local[2,4]"))
    records = spark.read.parquet(str(root / "records.parquet"))
    records.createOrReplaceTempView("records")
    spark.sql(PAIRS).localCheckpoint().createOrReplaceTempView("pairs")
    labels = spark.sql("SELECT id, id AS entity FROM records")
    changed = True
    while changed:
        labels.createOrReplaceTempView("labels")
        following = spark.sql(LABELS).localCheckpoint()
        following.createOrReplaceTempView("following")
        moved = (
            "SELECT 1 FROM labels JOIN following USING (id) WHERE labels.entity <> following.entity"
        )
        changed = not spark.sql(moved).isEmpty()
        labels = following
    labels.createOrReplaceTempView("labels")
    spark.sql("SELECT entity, r.* FROM records r JOIN labels USING (id)").write.parquet(
        str(root / "joins")
    )
    stop_session()


SIDES = {"ours": ours, "plain": plain, "resolve": resolve, "joins": joins}

if __name__ == "__main__":
    SIDES[sys.argv[1]](Path(sys.argv[2]))

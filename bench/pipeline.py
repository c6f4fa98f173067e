"""Loads on Spark against the raw floor and the local engine, and the endpoint check by itself.

Every side runs in a process of its own; CPU and memory are those of its whole tree (JVM, Python
workers), sampled from /proc. The floor parses and writes the same rows with pylance, unchecked.
`python -m bench.pipeline huge` loads 10M nodes and 50M edges in one commit with a 4g heap.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

from bench.harness import Figure, report
from omnigraph.catalog.model import Catalog
from omnigraph.graph.open import init, open_graph
from omnigraph.integrity.violations import Report
from omnigraph.load.bulk_checks import BulkChecks
from omnigraph.load.key_index import KeyIndex
from omnigraph.load.spool import PLACE
from omnigraph.pipeline.session import stop_session
from omnigraph.settings.models import Settings
from omnigraph.settings.pipeline import PipelineSettings

SIZES = {"small": (200_000, 800_000), "full": (5_000_000, 20_000_000), "huge": (10**7, 5 * 10**7)}
SCHEMA = """
node Person { name: String @key  age: I32  city: String? }
edge Knows: Person -> Person { since: I32? }
"""
PLAIN_ANTI_JOIN = 90.5
"""CPU seconds of Spark's own distinct + anti-join for 20M edges x 5M nodes, notes/spark.md."""
_ROWS = 500_000
_BLOCK = 16 * 1024 * 1024
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def run(scale: str) -> None:
    nodes, edges = SIZES[scale]
    figures, notes = [], [f"scale {scale}: {nodes:,} nodes, {edges:,} edges, two cores"]
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        root = Path(folder)
        generate(root, nodes, edges, ("ndjson", "parquet"))
        for kind in ("ndjson", "parquet"):
            sides = {s: child(s, root, kind) for s in ("floor", "local", "local[1]", "local[2]")}
            floor, spark = sides["floor"], sides["local[2]"]
            figures += [
                Figure(f"{kind} Spark / floor, CPU", spark.cpu, floor.cpu, "s", "stated"),
                Figure(f"{kind} Spark / local, CPU", spark.cpu, sides["local"].cpu, "s", "stated"),
                Figure(f"{kind} Spark / local, wall", spark.wall, sides["local"].wall, "s", ""),
                Figure(
                    f"{kind} local[2] / local[1], wall", spark.wall, sides["local[1]"].wall, "s", ""
                ),
            ]
            notes += [f"{kind} {name}: {side}" for name, side in sides.items()]
        check = child("endpoints", root, "parquet")
        scaled = PLAIN_ANTI_JOIN * edges / 20_000_000
        figures.append(Figure("endpoint check, CPU", check.cpu, scaled, "s", "<= 0.33"))
    report("pipeline", figures, notes)


class Side:
    """What one process tree used."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        began = time.perf_counter()
        self.cpu = self.peak = 0.0
        while process.poll() is None:
            cpu, rss = tree(process.pid)
            self.cpu, self.peak = max(self.cpu, cpu), max(self.peak, rss)
            time.sleep(0.1)
        self.wall = time.perf_counter() - began
        if process.returncode:
            raise SystemExit(f"a side of the bench failed: {process.args!r}")

    def __str__(self) -> str:
        peak = self.peak / 2**30
        return f"wall {self.wall:.1f} s, CPU {self.cpu:.1f} s, peak of the tree {peak:.2f} GiB"


def child(side: str, root: Path, kind: str) -> Side:
    arguments = [sys.executable, "-m", "bench.pipeline", side, str(root), kind]
    return Side(subprocess.Popen(arguments))


def tree(root: int) -> tuple[float, float]:
    """(CPU seconds, resident bytes) of a process and everything below it."""
    found, parents = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            process = int(entry.name)
            parents[process] = int(fields[1])
            cpu = sum(map(int, fields[11:15])) / _TICK
            found[process] = (cpu, int(fields[21]) * _PAGE)
    ours = {root}
    while more := {p for p, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(found[p][0] for p in ours if p in found), sum(
        found[p][1] for p in ours if p in found
    )


def generate(root: Path, nodes: int, edges: int, kinds: tuple[str, ...]) -> None:
    random = np.random.default_rng(7)
    for name, count in (("Person", nodes), ("Knows", edges)):
        parquet = lines = None
        for start in range(0, count, _ROWS):
            rows = min(_ROWS, count - start)
            table = people(start, rows) if name == "Person" else knows(random, nodes, rows)
            if "parquet" in kinds:
                parquet = parquet or pq.ParquetWriter(root / f"{name}.parquet", table.schema)
                parquet.write_table(table)
            if "ndjson" in kinds:
                lines = lines or (root / f"{name}.ndjson").open("wb")
                lines.write(as_lines(name, table))
        for file in (parquet, lines):
            if file is not None:
                file.close()


def people(start: int, rows: int) -> pa.Table:
    numbers = np.arange(start, start + rows)
    cities = pa.array(["Oslo", "Lima", "Pune", None]).take(pa.array(numbers % 4))
    return pa.table({"name": ids(numbers), "age": (numbers % 90).astype(np.int32), "city": cities})


def knows(random: np.random.Generator, nodes: int, rows: int) -> pa.Table:
    ends = [ids(random.integers(0, nodes, rows)) for _ in range(2)]
    return pa.table({"from": ends[0], "to": ends[1], "since": np.full(rows, 2020, np.int32)})


def ids(numbers: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise("person-", pa.array(numbers).cast(pa.string()), "")


def as_lines(name: str, table: pa.Table) -> bytes:
    column = [table.column(c).cast(pa.string()) for c in table.column_names]
    if name == "Person":
        city = pc.if_else(
            column[2].is_valid(), pc.binary_join_element_wise(',"city":"', column[2], '"', ""), ""
        )
        parts = ['{"type":"Person","data":{"name":"', column[0], '","age":', column[1], city, "}}"]
    else:
        parts = ['{"edge":"Knows","from":"', column[0], '","to":"', column[1]]
        parts += ['","data":{"since":', column[2], "}}"]
    whole = pc.binary_join_element_wise(*parts, "", null_handling="replace", null_replacement="")
    return ("\n".join(whole.to_pylist()) + "\n").encode()


def floor(root: Path, kind: str) -> None:
    for name in ("Person", "Knows"):
        target = str(root / f"floor-{kind}-{name}")
        path = root / f"{name}.{kind}"
        if kind == "parquet":
            file = pq.ParquetFile(path)
            schema = file.schema_arrow
            batches = file.iter_batches(_ROWS)
        else:
            reader = pj.open_json(path, pj.ReadOptions(block_size=_BLOCK))
            schema, batches = reader.schema, reader
        lance.write_dataset(
            pa.RecordBatchReader.from_batches(schema, batches), target, mode="overwrite"
        )


def load(root: Path, kind: str, engine: str, memory: str | None = None) -> None:
    master = engine if engine != "local" else "local[1]"
    settings = Settings(pipeline=PipelineSettings(master=master, driver_memory=memory))
    uri = root / f"{engine}-{kind}.omni"
    init(uri, SCHEMA)
    graph = open_graph(uri, settings=settings)
    files = [root / f"{name}.{kind}" for name in ("Person", "Knows")]
    graph.load(files, engine="local" if engine == "local" else "spark", progress=False)
    stop_session()


def endpoints(root: Path) -> None:
    """The batch-wide checks of a load, endpoints among them, on narrow columns by themselves."""
    graph = init(root / "empty.omni", SCHEMA)
    catalog: Catalog = graph.snapshot().catalog
    index = KeyIndex(catalog, root, 2 * 1024**3)
    for name in ("Person", "Knows"):
        entity = catalog.resolve(name)
        first = 0
        for batch in pq.ParquetFile(root / f"{name}.parquet").iter_batches(_ROWS):
            rows = batch.num_rows
            places = np.arange(first, first + rows)
            columns = {"id": batch.column(0)}
            if name == "Knows":
                columns = {"id": pa.nulls(rows, pa.string()), "src": batch.column(0)}
                columns["dst"] = batch.column(1)
            index.add_input(entity, pa.table({**columns, PLACE: places}))
            first += rows
    written = frozenset(t.table_key for t in catalog.entity_types())
    checks = BulkChecks(catalog, index, written, frozenset(), lambda _: None)
    found = Report()
    checks.graph_rules(found)
    assert found.total == 0, "the generated edges are whole"


def huge() -> None:
    nodes, edges = SIZES["huge"]
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        root = Path(folder)
        generate(root, nodes, edges, ("parquet",))
        size = sum(p.stat().st_size for p in root.iterdir())
        side = child("huge-load", root, "parquet")
        print(f"{nodes:,} nodes, {edges:,} edges, {size / 2**30:.2f} GiB of Parquet: {side}")


def main() -> None:
    side, *rest = sys.argv[1:]
    if side == "huge":
        huge()
        return
    root, kind = Path(rest[0]), rest[1]
    if side == "floor":
        floor(root, kind)
    elif side == "endpoints":
        endpoints(root)
    elif side == "huge-load":
        load(root, kind, "local[2]", "4g")
    else:
        load(root, kind, side)


if __name__ == "__main__":
    main()

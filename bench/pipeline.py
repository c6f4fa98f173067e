"""Loads on Spark against the raw floor and the local engine, by size, and the endpoint check.

Every side runs in a process of its own; CPU and memory are those of its whole tree (JVM, Python
workers), sampled from /proc. The floor parses and writes the same rows with pylance, unchecked.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq

from bench.harness import Figure, report
from bench.pipeline_data import ROWS, SCHEMA, generate
from bench.process_tree import Side
from omnigraph.catalog.model import Catalog
from omnigraph.graph.open import init, open_graph
from omnigraph.integrity.violations import Report
from omnigraph.load.bulk_checks import BulkChecks
from omnigraph.load.key_index import KeyIndex
from omnigraph.load.prepare_rows import PLACE
from omnigraph.settings.models import LoadSettings, PipelineSettings, Settings
from omnigraph.spark import spark_session, stop_session
from omnigraph.values.identifiers import EntityKind, TableKey

_LOCAL = "the local engine"

# Every side on Spark starts a JVM: small has few of them.
SIZES = {
    "small": ((200_000, 800_000),),
    "full": ((1_000_000, 3_000_000), (5_000_000, 20_000_000)),
}
KINDS = {"small": ("ndjson",), "full": ("ndjson", "parquet")}
MEMORY = {"huge": ("4g", 2 * 1024**3), "squeezed": ("1g", 512 * 1024**2)}
SIDES = {"small": ("floor", "local", "local[2,4]")}
SIDES["full"] = (*SIDES["small"], "local[1,4]")
_BLOCK = 16 * 1024 * 1024
_GIB = 1024**3

Sides = Mapping[str, Side]


def run(scale: str) -> None:
    figures: list[Figure] = []
    notes: list[str] = []
    measured: dict[str, list[tuple[float, Sides]]] = {kind: [] for kind in KINDS[scale]}
    for nodes, edges in SIZES[scale]:
        with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
            root = Path(folder)
            generate(root, nodes, edges, ("ndjson", "parquet"))
            for kind, found in measured.items():
                size = sum(p.stat().st_size for p in root.glob(f"*.{kind}"))
                sides = {name: child(name, root, kind) for name in SIDES[scale]}
                found.append((size / _GIB, sides))
                head = f"{kind}, {nodes:,} nodes + {edges:,} edges, {size / _GIB:.3f} GiB"
                notes += [f"{head}, {name}: {side}" for name, side in sides.items()]
            if (nodes, edges) == SIZES[scale][-1]:
                figures.append(endpoint_check(root, scale))
    for kind, found in measured.items():
        figures += compared(kind, found[-1][1])
        if len(found) > 1:
            figures.append(smallest(kind, SIZES[scale][0], found[0][1]))
            notes.append(crossover(kind, found))
    report("pipeline", figures, notes)


def endpoint_check(root: Path, scale: str) -> Figure:
    """Each by itself on the same files; at the small scale most of it is the start of a process."""
    ours, plain = (child(side, root, "parquet") for side in ("endpoints", "anti-join"))
    target = "<= 0.33" if scale == "full" else "stated"
    return Figure(
        "endpoint check / Spark's anti-join, CPU",
        ours.cpu,
        plain.cpu,
        "s",
        target,
        against="Spark's anti-join",
    )


def compared(kind: str, sides: Sides) -> list[Figure]:
    spark, local, floor = (sides[name] for name in ("local[2,4]", "local", "floor"))
    figures = [
        Figure(
            f"{kind} Spark / floor, CPU",
            spark.cpu,
            floor.cpu,
            "s",
            "stated",
            against="a pylance write, nothing checked",
        ),
        Figure(f"{kind} Spark / local, CPU", spark.cpu, local.cpu, "s", "stated", against=_LOCAL),
        Figure(
            f"{kind} Spark / local, wall", spark.wall, local.wall, "s", "stated", against=_LOCAL
        ),
    ]
    if one := sides.get("local[1,4]"):
        name = f"{kind} two cores / one, wall"
        figures.append(
            Figure(name, spark.wall, one.wall, "s", "stated", against="our own, one core")
        )
    return figures


def smallest(kind: str, size: tuple[int, int], sides: Sides) -> Figure:
    """Most of it is the start of Spark."""
    rows = f"{size[0]:,} + {size[1]:,} rows"
    return Figure(
        f"{kind} Spark / floor, CPU, {rows}",
        sides["local[2,4]"].cpu,
        sides["floor"].cpu,
        "s",
        "<= 4" if kind == "parquet" else "stated",
        against="a pylance write, nothing checked",
    )


def crossover(kind: str, found: list[tuple[float, Sides]]) -> str:
    """Where the lines through the smallest and the largest size meet, and on how many cores.

    In CPU seconds, which a busy machine distorts least; the local engine is taken to keep one core
    busy, Spark all of them.
    """
    (small, first), (large, last) = found[0], found[-1]

    def line(name: str) -> tuple[float, float]:
        slope = (last[name].cpu - first[name].cpu) / (large - small)
        return first[name].cpu - slope * small, slope

    start, per_gib = line("local[2,4]")
    local_start, local_per_gib = line("local")
    text = (
        f"{kind}: local {local_start:.1f} + {local_per_gib:.1f} CPU s/GiB, "
        f"Spark {start:.1f} + {per_gib:.1f} CPU s/GiB; equally fast at"
    )
    for cores in (2, 4, 8, 16):
        gain = local_per_gib - per_gib / cores
        equal = (start - local_start) / gain if gain > 0 else None
        text += f" {'never' if equal is None else f'{equal:.1f} GiB'} on {cores} cores,"
    return text.rstrip(",")


def child(side: str, root: Path, kind: str) -> Side:
    arguments = [sys.executable, "-m", "bench.pipeline", side, str(root), kind]
    temporary = root / "temporary"
    temporary.mkdir(exist_ok=True)
    return Side(subprocess.Popen(arguments), temporary)


def floor(root: Path, kind: str) -> None:
    for name in ("Person", "Knows"):
        target = str(root / f"floor-{kind}-{name}")
        path = root / f"{name}.{kind}"
        if kind == "parquet":
            file = pq.ParquetFile(path)
            schema = file.schema_arrow
            batches = file.iter_batches(ROWS)
        else:
            reader = pj.open_json(path, pj.ReadOptions(block_size=_BLOCK))
            schema, batches = reader.schema, reader
        lance.write_dataset(pa.RecordBatchReader.from_batches(schema, batches), target)


def load(root: Path, kind: str, side: str) -> None:
    heap, checks = MEMORY.get(side, (None, 2 * 1024**3))
    master = side if side.startswith("local[") else "local[2,4]"
    settings = Settings(
        load=LoadSettings(memory_bytes=checks, temp_directory=str(root / "temporary")),
        pipeline=PipelineSettings(master=master, driver_memory=heap),
    )
    uri = root / f"{side}-{kind}.omni"
    init(uri, SCHEMA)
    graph = open_graph(uri, settings=settings)
    files = [root / f"{name}.{kind}" for name in ("Person", "Knows")]
    receipt = graph.load(files, engine="local" if side == "local" else "spark", progress=False)
    assert receipt.commit is not None
    stored = graph.snapshot()
    kinds = {EntityKind.NODE: receipt.nodes, EntityKind.EDGE: receipt.edges}
    for kind, types in kinds.items():
        for counts in types:
            assert stored.pin(TableKey(kind, counts.name)).row_count == counts.entities_loaded
    stop_session()


def endpoints(root: Path) -> None:
    """The batch-wide checks of a load, endpoints among them, on narrow columns by themselves."""
    graph = init(root / "empty.omni", SCHEMA)
    catalog: Catalog = graph.snapshot().catalog
    index = KeyIndex(catalog, root / "temporary", 2 * 1024**3)
    for name in ("Person", "Knows"):
        entity = catalog.resolve(name)
        first = 0
        for batch in pq.ParquetFile(root / f"{name}.parquet").iter_batches(ROWS):
            rows = batch.num_rows
            places = np.arange(first, first + rows)
            columns = {"id": batch.column(0)}
            if name == "Knows":
                columns = {"id": pa.nulls(rows, pa.string()), "src": batch.column(0)}
                columns["dst"] = batch.column(1)
            index.add_input(entity, pa.table({**columns, PLACE: places}))
            first += rows
    # Rows of the snapshot: there are none.
    for entity in catalog.entity_types():
        index.fill_stored(entity.table_key, pa.table({"id": pa.array([], pa.string())}))
    written = frozenset(t.table_key for t in catalog.entity_types())
    checks = BulkChecks(catalog, index, written, frozenset(), lambda _: None)
    found = Report()
    checks.graph_rules(found)
    assert found.total == 0, "the generated edges are whole"


def anti_join(root: Path) -> None:
    """What a Spark user would write: all ends, distinct, not among the ids; Spark's own JVM."""
    own = (("spark.driver.extraJavaOptions", ""),)
    spark = spark_session(PipelineSettings(master="local[2,4]", driver_memory="4g", conf=own))
    nodes, edges = (spark.read.parquet(str(root / f"{n}.parquet")) for n in ("Person", "Knows"))
    source, target, key = edges.columns[0], edges.columns[1], nodes.columns[0]
    ends = edges.select(edges[source].alias(key)).union(edges.select(edges[target].alias(key)))
    assert ends.distinct().join(nodes, key, "left_anti").count() == 0
    stop_session()


def main() -> None:
    side, folder, kind = sys.argv[1:]
    root = Path(folder)
    if side == "floor":
        floor(root, kind)
    elif side == "endpoints":
        endpoints(root)
    elif side == "anti-join":
        anti_join(root)
    else:
        load(root, kind, side)


if __name__ == "__main__":
    main()

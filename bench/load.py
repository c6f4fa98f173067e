"""Local load: CPU against parsing plus raw pylance writing of the same table, and peak memory.

Each side runs in a process of its own, so that CPU (all threads) and peak memory are its own; the
two take turns, and the least of each counts. The raw side stores what the load stores (the id
column too, whose values it gets for nothing; stable row ids; no index, because a load builds none)
and checks nothing.

Two figures compare a load of fewer rows with itself: with a file for rejected rows and without it,
and edges without ids that are merged twice.

An export of the nodes, which is ordered by id, is compared with a raw scan of the same table in any
order: Arrow's writer takes the batches as Parquet, and DuckDB's `COPY` takes them as JSON lines.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

from bench.harness import Figure, report
from bench.peak_memory import peak_of_this_process
from omnigraph.graph.open import init, open_graph
from omnigraph.values.entity_ids import new_ulids

SIZES = {
    "small": {"nodes": 100_000, "edges": 400_000, "reloaded": 200_000},
    "full": {"nodes": 5_000_000, "edges": 20_000_000, "reloaded": 1_000_000},
}
SCHEMA = """
node Person { name: String @key  age: I32  city: String?  score: F64?  joined: DateTime? }
edge Knows: Person -> Person { since: Date?  weight: F64? }
"""
_ROWS = 250_000
_REPETITIONS = {"small": 2, "full": 1}
_REJECT_TURNS = 2
_BLOCK = 16 * 1024 * 1024


def run(scale: str) -> None:
    size = SIZES[scale]
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        root = Path(folder)
        generate(root, size["nodes"], size["edges"])
        figures, notes = [], [f"scale {scale}: {size['nodes']:,} nodes, {size['edges']:,} edges"]
        for kind in ("ndjson", "parquet"):
            figures += compare(root, kind, _REPETITIONS[scale], notes)
        figures += [
            export(root, kind, _REPETITIONS[scale], notes) for kind in ("ndjson", "parquet")
        ]
        fewer = root / "fewer"
        fewer.mkdir()
        generate(fewer, size["nodes"] // 5, size["reloaded"])
        figures.append(list_rejects(fewer, notes))
        figures.append(reload(fewer, size["reloaded"], notes))
    report("load", figures, notes)


def export(root: Path, kind: str, repetitions: int, notes: list[str]) -> Figure:
    """The nodes of the graph that the Parquet files filled."""
    runs: dict[str, list[dict[str, float]]] = {"export": [], "scan": []}
    for _ in range(repetitions):
        for side, found in runs.items():
            found.append(child(side, root, kind, "Person"))
    ours, raw = (min(found, key=_cpu) for found in runs.values())
    notes.append(
        f"export of nodes to {kind}: wall {ours['wall']:.1f} s against {raw['wall']:.1f} s, "
        f"peak {ours['peak_mib']:.0f} MiB against {raw['peak_mib']:.0f} MiB"
    )
    writer = "DuckDB's JSON writer" if kind == "ndjson" else "Arrow's Parquet writer"
    return Figure(
        f"export of nodes to {kind}, CPU",
        ours["cpu"],
        raw["cpu"],
        "s",
        "<= 2",
        against=f"a pylance scan and {writer}",
    )


def export_rows(root: Path, kind: str, name: str) -> None:
    graph, target = open_graph(root / "parquet.omni"), root / f"exported-{kind}"
    shutil.rmtree(target, ignore_errors=True)
    graph.export(target, types=[name], format=kind)


def scan_rows(root: Path, kind: str, name: str) -> None:
    """What a script would do with the table of the same rows that the raw side wrote."""
    stored = lance.dataset(str(root / f"floor-parquet-{name}.lance"))
    batches = stored.scanner().to_reader()
    target = root / f"scanned.{kind}"
    if kind == "parquet":
        with pq.ParquetWriter(target, batches.schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return
    with duckdb.connect(":memory:") as connection:
        connection.register("stored", batches)
        connection.execute(f"COPY (SELECT * FROM stored) TO '{target}' (FORMAT json)")


def list_rejects(root: Path, notes: list[str]) -> Figure:
    """Nodes and edges without a mistake, loaded with and without a file for rejected rows."""
    runs: dict[str, list[dict[str, float]]] = {"whole": [], "rejects": []}
    for _ in range(_REJECT_TURNS):
        for side, found in runs.items():
            shutil.rmtree(root / "ndjson-whole.omni", ignore_errors=True)
            init(root / "ndjson-whole.omni", SCHEMA)
            found.append(child(side, root, "ndjson", "-"))
    without, listed = (min(found, key=_cpu) for found in runs.values())
    notes.append(
        f"a file for rejected rows: wall {listed['wall']:.1f} s against {without['wall']:.1f} s, "
        f"peak {listed['peak_mib']:.0f} MiB against {without['peak_mib']:.0f} MiB"
    )
    return Figure(
        "load that would list rejected rows, CPU",
        listed["cpu"],
        without["cpu"],
        "s",
        "<= 1.1",
        against="our own, the same load without the file",
    )


def reload(root: Path, edges: int, notes: list[str]) -> Figure:
    """Edges without ids, merged twice: the second load finds all of them in the graph."""
    init(root / "ndjson.omni", SCHEMA)
    child("ours", root, "ndjson", "Person")
    first, again = (child("merge", root, "ndjson", "Knows") for _ in range(2))
    notes.append(
        f"{edges:,} edges merged twice: wall {first['wall']:.1f} s and {again['wall']:.1f} s, "
        f"peak {first['peak_mib']:.0f} MiB and {again['peak_mib']:.0f} MiB"
    )
    return Figure(
        "reload of the same edges, CPU",
        again["cpu"],
        first["cpu"],
        "s",
        "<= 1.3",
        against="our own, the first load",
    )


def compare(root: Path, kind: str, repetitions: int, notes: list[str]) -> list[Figure]:
    figures = []
    for name, limit in (("Person", "<= 1.5"), ("Knows", "<= 1.5")):
        least, ours = take_turns(root, kind, name, repetitions)
        what = "nodes" if name == "Person" else "edges"
        figures.append(
            Figure(
                f"{kind} {what}, CPU",
                ours["cpu"],
                least["cpu"],
                "s",
                limit,
                against="Arrow's parser and a pylance write",
            )
        )
        notes.append(
            f"{kind} {what}: wall {ours['wall']:.1f} s against {least['wall']:.1f} s, "
            f"peak {ours['peak_mib']:.0f} MiB against {least['peak_mib']:.0f} MiB"
        )
    init(root / f"{kind}-whole.omni", SCHEMA)
    whole = child("whole", root, kind, "-")
    notes.append(
        f"{kind}, all in one commit: wall {whole['wall']:.1f} s, CPU {whole['cpu']:.1f} s, "
        f"peak {whole['peak_mib']:.0f} MiB"
    )
    return figures


def take_turns(
    root: Path, kind: str, name: str, repetitions: int
) -> tuple[dict[str, float], dict[str, float]]:
    """(raw, load), the cheapest run of each; edges go to a graph that has the nodes."""
    graph, before = root / f"{kind}.omni", root / f"{kind}-before.omni"
    if not graph.exists():
        init(graph, SCHEMA)
    graph.rename(before)
    raw, loads = [], []
    for _ in range(repetitions):
        raw.append(child("floor", root, kind, name))
        shutil.rmtree(graph, ignore_errors=True)
        shutil.copytree(before, graph)
        loads.append(child("ours", root, kind, name))
    shutil.rmtree(before)
    return min(raw, key=_cpu), min(loads, key=_cpu)


def _cpu(run: dict[str, float]) -> float:
    return run["cpu"]


def child(side: str, root: Path, kind: str, name: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.load", side, str(root), kind, name],
        check=True,
        capture_output=True,
        text=True,
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def generate(root: Path, nodes: int, edges: int) -> None:
    """The same rows as NDJSON and as Parquet."""
    with (root / "Person.ndjson").open("w") as lines:
        for start in range(0, nodes, _ROWS):
            rows = range(start, min(start + _ROWS, nodes))
            lines.writelines(
                f'{{"type":"Person","data":{{"name":"person-{i}","age":{i % 90},'
                f'"city":"city {i % 1000}","score":{i / 7!r},'
                f'"joined":"2024-{i % 12 + 1:02}-{i % 28 + 1:02}T03:04:05.{i % 1000:03}Z"}}}}\n'
                for i in rows
            )
    with (root / "Knows.ndjson").open("w") as lines:
        for start in range(0, edges, _ROWS):
            rows = range(start, min(start + _ROWS, edges))
            lines.writelines(
                f'{{"edge":"Knows","from":"person-{i * 7919 % nodes}",'
                f'"to":"person-{i * 104729 % nodes}",'
                f'"data":{{"since":"20{i % 24:02}-{i % 12 + 1:02}-{i % 28 + 1:02}",'
                f'"weight":{i % 1000 / 1000!r}}}}}\n'
                for i in rows
            )
    for name, count in (("Person", nodes), ("Knows", edges)):
        with pq.ParquetWriter(root / f"{name}.parquet", stored_schema(name)) as writer:
            for start in range(0, count, _ROWS):
                i = np.arange(start, min(start + _ROWS, count))
                columns = node_columns(i) if name == "Person" else edge_columns(i, nodes)
                writer.write_table(pa.table(columns, schema=stored_schema(name)))


def node_columns(i: npt.NDArray[np.int64]) -> list[pa.Array]:
    """The columns of `Person` that the NDJSON lines with these numbers have."""
    days = np.datetime64("2024-01") + i % 12
    moments = (days.astype("M8[D]") + i % 28).astype("M8[ms]") + (11_045_000 + i % 1000)
    score = pa.array(i / 7)
    age = pa.array(i % 90, pa.int32())
    return [numbered("person-", i), age, numbered("city ", i % 1000), score, pa.array(moments)]


def edge_columns(i: npt.NDArray[np.int64], nodes: int) -> list[pa.Array]:
    """The columns of `Knows` that the NDJSON lines with these numbers have."""
    months = np.datetime64("2000-01") + (i % 24 * 12 + i % 12)
    ends = [numbered("person-", i * step % nodes) for step in (7919, 104729)]
    return [*ends, pa.array(months.astype("M8[D]") + i % 28), pa.array(i % 1000 / 1000)]


def numbered(word: str, numbers: npt.NDArray[np.int64]) -> pa.Array:
    return pc.binary_join_element_wise(word, pa.array(numbers).cast(pa.string()), "")


def stored_schema(name: str) -> pa.Schema:
    if name == "Person":
        moment = pa.timestamp("ms")
        kinds = [("name", pa.string()), ("age", pa.int32()), ("city", pa.string())]
        return pa.schema([*kinds, ("score", pa.float64()), ("joined", moment)])
    ends = [("from", pa.string()), ("to", pa.string())]
    return pa.schema([*ends, ("since", pa.date32()), ("weight", pa.float64())])


def parsed(path: Path, name: str):  # type: ignore[no-untyped-def]
    """What a script would do: Arrow's own reader with the schema, nothing checked."""
    stored = stored_schema(name)
    ends = [f for f in stored if f.name in ("from", "to")]
    # Arrow's reader knows no dates: as text, and cast.
    kinds = {"since": pa.string()}
    data = pa.struct([(f.name, kinds.get(f.name, f.type)) for f in stored if f not in ends])
    word = "type" if name == "Person" else "edge"
    schema = pa.schema([pa.field(word, pa.string()), *ends, pa.field("data", data)])
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            block += file.readline()
            table = pj.read_json(
                pa.BufferReader(block),
                pj.ReadOptions(use_threads=False, block_size=len(block) + 1),
                pj.ParseOptions(explicit_schema=schema),
            )
            columns = [table.column(f.name) for f in ends]
            columns += table.column("data").combine_chunks().flatten()
            yield pa.table(columns, names=stored.names).cast(stored)


def floor(root: Path, kind: str, name: str, ids: Iterator[pa.Array]) -> None:
    path = root / f"{name}.{kind}"
    if kind == "ndjson":
        tables = parsed(path, name)
    else:
        batches = pq.ParquetFile(path).iter_batches(65536, use_threads=False)
        tables = (pa.Table.from_batches([batch]) for batch in batches)
    stored = stored_schema(name)
    batches = (
        pa.record_batch(
            [batch.column(0) if name == "Person" else next(ids).slice(0, len(batch)), *batch],
            names=["id", *stored.names],
        )
        for table in tables
        for batch in table.to_batches()
    )
    schema = pa.schema([pa.field("id", pa.string()), *stored])
    lance.write_dataset(
        pa.RecordBatchReader.from_batches(schema, batches),
        str(root / f"floor-{kind}-{name}.lance"),
        mode="overwrite",
        enable_stable_row_ids=True,
        data_storage_version="2.2",
    )


def free_ids(root: Path, kind: str, name: str) -> Iterator[pa.Array]:
    """As many fresh ids as batches of edges may need, made before anything is measured."""
    if name == "Person":
        return iter(())
    rows = pq.read_metadata(root / f"{name}.parquet").num_rows
    size = 65536 if kind == "parquet" else _BLOCK // 64
    return iter([new_ulids(size) for _ in range(2 * rows // size + 20)])


def load_one_row(root: Path) -> None:
    """Modules are imported on first use; the floor has imported its own by now too."""
    row = pa.table({"name": ["x"], "age": pa.array([1], pa.int32())})
    with tempfile.TemporaryDirectory(dir=root) as folder:
        graph = init(Path(folder) / "one.omni", SCHEMA)
        graph.load(row, type="Person", engine="local", progress=False)


def main(side: str, folder: str, kind: str, name: str) -> None:
    root = Path(folder)
    ids = free_ids(root, kind, name) if side == "floor" else iter(())
    if side != "floor":
        load_one_row(root)
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    if side == "floor":
        floor(root, kind, name, ids)
    elif side == "export":
        export_rows(root, kind, name)
    elif side == "scan":
        scan_rows(root, kind, name)
    elif side in ("ours", "merge"):
        mode = "append" if side == "ours" else "merge"
        open_graph(root / f"{kind}.omni").load(
            root / f"{name}.{kind}", mode, engine="local", progress=False
        )
    else:
        files = [root / f"{name}.{kind}" for name in ("Knows", "Person")]
        rejects = root / "rejects.ndjson" if side == "rejects" else None
        open_graph(root / f"{kind}-whole.omni").load(
            files, engine="local", progress=False, rejects=rejects
        )
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"wall": wall, "cpu": cpu, "peak_mib": peak_of_this_process() / 2**20}))


if __name__ == "__main__":
    main(*sys.argv[1:])

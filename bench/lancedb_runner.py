"""Vector search in lancedb on the same data; started in the peers' own environment.

Usage: python lancedb_runner.py FOLDER K

FOLDER holds data.npy, queries.npy, few.npy (rows of the 1% filter) and truth.json. The cheapest
setting of the grid that reaches a recall of 0.95 is measured, for all rows and for the filter.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import lancedb
import numpy as np
import pyarrow as pa

RECALL = 0.95
GRID = [
    *((probes, refine) for probes in (8, 16, 32, 64, 128, 256) for refine in (4, 20)),
    # Vectors without clusters need almost all partitions and exact distances of many rows.
    *((512, refine) for refine in (100, 500, 2000)),
]


def peak_mib() -> float:
    """`getrusage` would include the process that started this one."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    folder, k = Path(sys.argv[1]), int(sys.argv[2])
    data, queries = np.load(folder / "data.npy"), np.load(folder / "queries.npy")
    few = np.load(folder / "few.npy")
    truth = json.loads((folder / "truth.json").read_text())
    with tempfile.TemporaryDirectory(prefix="bench-lancedb-") as home:
        table, seconds = build(home, data, few)
        answers = {
            "build_seconds": seconds,
            "all": best(table, queries, truth["all"], k, None),
            "few": best(table, queries, truth["few"], k, "few"),
            "peak_mb": peak_mib(),
        }
    print(json.dumps(answers))


def build(home: str, data: np.ndarray, few: np.ndarray) -> tuple[object, float]:
    marked = np.zeros(len(data), bool)
    marked[few] = True
    rows = pa.table(
        {
            "number": np.arange(len(data)),
            "few": marked,
            "v": pa.FixedSizeListArray.from_arrays(pa.array(data.ravel()), data.shape[1]),
        }
    )
    table = lancedb.connect(home).create_table("vectors", rows)
    began = time.perf_counter()
    table.create_index(metric="cosine", vector_column_name="v")
    return table, time.perf_counter() - began


def best(table: object, queries: np.ndarray, truth: list, k: int, where: str | None) -> dict:
    """The first setting of the grid with the recall asked for, else the most thorough one."""
    found = {}
    for probes, refine in GRID:
        found = measure(table, queries, truth, k, (probes, refine, where))
        if found["recall"] >= RECALL:
            break
    return found


def measure(table: object, queries: np.ndarray, truth: list, k: int, how: tuple) -> dict:
    probes, refine, where = how
    times, hits = [], 0
    for query, wanted in zip(queries, truth, strict=True):
        began = time.perf_counter()
        search = table.search(query).distance_type("cosine").nprobes(probes)
        search = search.refine_factor(refine).limit(k).select(["number"])
        if where is not None:
            search = search.where(where, prefilter=True)
        rows = search.to_arrow().column("number").to_pylist()
        times.append((time.perf_counter() - began) * 1000)
        hits += len(set(rows) & set(wanted))
    recall = hits / sum(len(wanted) for wanted in truth)
    return {
        "milliseconds": statistics.median(times),
        "recall": recall,
        "probes": probes,
        "refine": refine,
    }


if __name__ == "__main__":
    main()

"""The figures of branches coming together: diff, merge, round trips, large merges."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.harness import Figure, milliseconds, p50, report
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.merge.tables import CHUNK_BYTES
from omnigraph_testing.crash import start
from omnigraph_testing.workloads import small_catalog

SIZES = {
    "small": {"rows": 100_000, "large": 100_000},
    "full": {"rows": 1_000_000, "large": 1_000_000},
}
CHANGED = 50
MIB = 1024 * 1024
ROUNDS = 15
TYPES, ROWS_PER_TYPE = 8, 100_000


def run(scale: str) -> None:
    size = SIZES[scale]
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        root = Path(folder)
        figures = small_changes(root, size["rows"])
        large, notes = large_merge(root, size["large"])
        mixed = mixed_merge(root, size["large"])
        trip, shares = round_trip(root)
    report("merge", [*figures, *large, mixed, trip], [f"scale {scale}", *notes, *shares])


def people(count: int, age: int = 0, order: int | None = None) -> pa.Table:
    """In the order of their ids, or in a random order, which the number `order` chooses."""
    numbers = np.arange(count)
    if order is not None:
        np.random.default_rng(order).shuffle(numbers)
    names = pa.array([f"person-{i:09}" for i in numbers])
    return pa.table({"name": names, "age": pa.array([age] * count, pa.int64())})


def filled(path: Path, count: int, order: int | None = None) -> Graph:
    graph = init(path, small_catalog())
    graph.apply({"Person": {"insert": people(count, order=order)}})
    graph.ensure_indices()
    return graph


def small_changes(root: Path, rows: int) -> list[Figure]:
    """The same 50 changed rows on a small and on a large table, in turns."""
    graphs = {count: filled(root / f"small-{count}", count) for count in (10_000, rows)}
    taken: dict[str, dict[int, list[float]]] = {
        what: {count: [] for count in graphs} for what in ("diff", "merge")
    }
    for number in range(ROUNDS):
        for count, graph in graphs.items():
            step = count // CHANGED
            graph.branches.create("r")
            edit = [{"name": f"person-{i * step:09}", "age": number + 1} for i in range(CHANGED)]
            graph.apply({"Person": {"upsert": edit}}, "r")
            graph.apply({"Note": {"insert": [{"text": "main moves on"}]}})
            diff = milliseconds(lambda g=graph: g.diff("main", "r"))
            merge = milliseconds(lambda g=graph: g.merge("r", delete_branch=True))
            taken["diff"][count].append(diff)
            taken["merge"][count].append(merge)
    return [
        Figure(
            f"{what} of {CHANGED} rows, {rows} against 10000",
            p50(times[rows]),
            p50(times[10_000]),
            "ms",
            "<= 1.5",
            against="our own, 10000 rows",
        )
        for what, times in taken.items()
    ]


def large_merge(root: Path, rows: int) -> tuple[list[Figure], list[str]]:
    """Every row of a table changed on a branch, main changed elsewhere, merged."""
    graph = filled(root / "large", rows)
    taken = merge_all(graph, people(rows, 1))
    began = time.perf_counter()
    graph.read("Person")
    scan = (time.perf_counter() - began) * 1000
    figures = [
        Figure(
            f"merge of {rows} changed rows, against reading them",
            taken,
            scan,
            "ms",
            "stated",
            against="reading the rows",
        ),
        rate(f"merge of {rows} changed rows", rows, taken, ">= 1"),
    ]
    grown = memory_of_a_merge(graph, rows)
    return figures, [
        f"merge of {rows} changed rows: {rows / taken * 1000:,.0f} rows/s",
        f"the same in a process of its own takes {grown / MIB:.0f} MiB of memory at its peak",
    ]


def mixed_merge(root: Path, rows: int) -> Figure:
    """The same, but rows are stored and changed in random orders of their ids."""
    graph = filled(root / "mixed", rows, order=1)
    taken = merge_all(graph, people(rows, 1, order=2))
    return rate(f"merge of {rows} changed rows, ids in random order", rows, taken, "stated")


def merge_all(graph: Graph, changed: pa.Table) -> float:
    """Milliseconds of the merge of a branch that changed these people."""
    graph.branches.create("r")
    graph.apply({"Person": {"upsert": changed}}, "r")
    graph.apply({"Note": {"insert": [{"text": "main moves on"}]}})
    return milliseconds(lambda: graph.merge("r"))


def rate(name: str, rows: int, taken: float, target: str) -> Figure:
    return Figure(
        name,
        rows / taken * 1000,
        1_000_000,
        "rows/s",
        target,
        "higher",
        against="a million rows a second",
    )


def memory_of_a_merge(graph: Graph, rows: int) -> int:
    """Bytes beyond what the process had before; here they would hide in what was freed before."""
    graph.branches.create("review")
    graph.apply({"Person": {"upsert": people(rows, 2)}}, "review")
    graph.apply({"Note": {"insert": [{"text": "main moves on"}]}})
    given = {"uri": graph.uri, "bytes_at_once": CHUNK_BYTES}
    child = start("omnigraph_testing.workloads:merge_review_measured", given)
    _, reports, stderr = child.finish(timeout=3600)
    assert reports, stderr
    return int(reports[0])


def round_trip(root: Path) -> tuple[Figure, list[str]]:
    """Branch, write one row, merge, delete, on a graph of 8 types."""
    graph = init(root / "trip", small_catalog(TYPES - 3))
    texts = pa.table({"text": pa.array(["x"] * ROWS_PER_TYPE)})
    graph.apply({"Person": {"insert": people(ROWS_PER_TYPE)}})
    for name in ["Note", *(f"Extra{i}" for i in range(TYPES - 3))]:
        graph.apply({name: {"insert": texts}})
    graph.ensure_indices()
    steps: dict[str, list[float]] = {"create": [], "write": [], "merge": [], "delete": []}
    for number in range(ROUNDS * 2):
        edit = {"Person": {"upsert": [{"name": "person-000000007", "age": number + 5}]}}
        steps["create"].append(milliseconds(lambda: graph.branches.create("r")))
        steps["write"].append(milliseconds(lambda e=edit: graph.apply(e, "r")))
        steps["merge"].append(milliseconds(lambda: graph.merge("r")))
        steps["delete"].append(milliseconds(lambda: graph.branches.delete("r")))
    medians = {name: statistics.median(times) for name, times in steps.items()}
    total = sum(medians.values())
    shares = [f"{name}: {ms:.1f} ms ({ms / total:.0%})" for name, ms in medians.items()]
    plain = p50([milliseconds(lambda i=i: write_main(graph, i)) for i in range(ROUNDS)])
    figure = Figure(
        "branch, write, merge, delete, against a write",
        total,
        plain,
        "ms",
        "stated",
        against="our own, one write",
    )
    return figure, [f"round trip on {TYPES} types x {ROWS_PER_TYPE} rows: " + ", ".join(shares)]


def write_main(graph: Graph, number: int) -> None:
    graph.apply({"Person": {"upsert": [{"name": "person-000000009", "age": 100 + number}]}})

"""The figures of the foundation: commits, writers side by side, branches, manifest size."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from bench.floor import LanceFloor
from bench.harness import Figure, milliseconds, p50, report
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph_testing.crash import start
from omnigraph_testing.workloads import create_small_graph, small_catalog

_FLOOR = "raw Lance, one row in two datasets"

SIZES = {
    "small": {"commits": 300, "rows": 100_000, "seconds": 2},
    "full": {"commits": 3000, "rows": 1_000_000, "seconds": 4},
}
WINDOW = 100


def run(scale: str) -> None:
    size = SIZES[scale]
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        root = Path(folder)
        commit_figures, notes = commits(root, size["commits"])
        figures = [
            *commit_figures,
            *threads(root, size["seconds"]),
            *processes(root),
            *branches(root, size["rows"]),
        ]
    report("foundation", figures, [f"scale {scale}", *notes])


def commits(root: Path, count: int) -> tuple[list[Figure], list[str]]:
    """Our commit and the floor's, in turns, so that both see the same machine and the same age."""
    graph = create_small_graph(str(root / "commits"), lease=10)
    floor = LanceFloor(root / "floor")
    ours, least = [], []
    for number in range(count):
        name = f"x{number}"
        least.append(milliseconds(lambda name=name: floor.commit(name)))
        edit = {"Note": {"insert": [{"id": name, "text": name}]}}
        ours.append(milliseconds(lambda edit=edit: graph.apply(edit)))
    early, late = slice(WINDOW // 2, 3 * WINDOW // 2), slice(-WINDOW, None)
    figures = [
        Figure(
            "one-row commit, first 150",
            p50(ours[early]),
            p50(least[early]),
            "ms",
            "<= 1.5",
            against=_FLOOR,
        ),
        Figure(
            f"one-row commit, at {count}",
            p50(ours[late]),
            p50(least[late]),
            "ms",
            "<= 1.5",
            against=_FLOOR,
        ),
        *manifest_share(root, count),
    ]
    noise = p50(least[early][::2]) / p50(least[early][1::2])
    spread = statistics.quantiles(ours[late], n=20)
    notes = [
        f"A/A noise of the floor (even against odd commits): {noise:.2f}",
        f"commit at {count}: p5 {spread[0]:.1f} ms, p95 {spread[-1]:.1f} ms",
    ]
    return figures, notes


def manifest_share(root: Path, count: int) -> list[Figure]:
    """Publish and cold open, young and old; over many tables, so that no table grows old.

    Both graphs take turns, because after thousands of commits the disk is busier than before them.
    """
    young, old = (create_small_graph(str(root / n), extra_types=8) for n in ("young", "old"))
    age(young, range(WINDOW // 2))
    age(old, range(count - WINDOW))
    published: tuple[list[float], list[float]] = ([], [])
    for number in range(WINDOW):
        published[0].extend(age(young, [WINDOW // 2 + number]))
        published[1].extend(age(old, [count - WINDOW + number]))
    cold: tuple[list[float], list[float]] = ([], [])
    for _ in range(WINDOW):
        for graph, into in zip((old, young), cold, strict=True):
            into.append(milliseconds(lambda g=graph: cold_snapshot(str(g.uri))))
    return [
        Figure(
            f"publish, {count} vs 100 commits",
            p50(published[1]),
            p50(published[0]),
            "ms",
            "<= 1.3",
            against="our own, at 100 commits",
        ),
        Figure(
            f"cold open of a snapshot, {count} vs 100 commits",
            p50(cold[0]),
            p50(cold[1]),
            "ms",
            "<= 1.3",
            against="our own, at 100 commits",
        ),
    ]


def age(graph: Graph, numbers: Iterable[int]) -> list[float]:
    """Make a small commit for each number; how long each publish took."""
    publisher = graph.engine.transaction._publisher
    times: list[float] = []
    original = publisher.publish

    def timed(*arguments: object) -> object:
        began = time.perf_counter()
        try:
            return original(*arguments)
        finally:
            times.append((time.perf_counter() - began) * 1000)

    publisher.publish = timed
    for number in numbers:
        table = f"Extra{number % 8}"
        graph.apply({table: {"insert": [{"id": f"x{number}", "text": "x"}]}})
    publisher.publish = original
    return times


def cold_snapshot(uri: str) -> object:
    return open_graph(uri, read_only=True).snapshot().graph_commit_id


def threads(root: Path, seconds: float, workers: int = 8) -> list[Figure]:
    graph = create_small_graph(str(root / "threads"), extra_types=workers, lease=10)

    def rate(count: int, tag: str) -> float:
        done = [0] * count
        deadline = time.monotonic() + seconds

        def work(worker: int) -> None:
            while time.monotonic() < deadline:
                row = {"id": f"{tag}-{worker}-{done[worker]}", "text": "x"}
                graph.apply({f"Extra{worker}": {"insert": [row]}})
                done[worker] += 1

        pool = [threading.Thread(target=work, args=(n,)) for n in range(count)]
        for thread in pool:
            thread.start()
        for thread in pool:
            thread.join()
        return sum(done) / seconds

    one = rate(1, "a")
    many = rate(workers, "b")
    name = f"{workers} threads, disjoint tables, against 1"
    return [Figure(name, many, one, "commits/s", ">= 1", "higher", against="our own, 1 thread")]


def processes(root: Path, workers: int = 8, commits_each: int = 60) -> list[Figure]:
    def rate(count: int) -> float:
        uri = str(root / f"processes-{count}")
        create_small_graph(uri, extra_types=workers, lease=10)
        arguments = {"uri": uri, "commits": commits_each, "lease": 10}
        children = [
            start(
                "omnigraph_testing.workloads:racing_writer",
                {**arguments, "name": f"w{n}", "own_table": f"Extra{n}"},
            )
            for n in range(count)
        ]
        for child in children:
            child.wait_for_report()
        began = time.monotonic()
        results = [child.finish() for child in children]
        done = sum(1 for _, reports, _ in results for r in reports if "done" in r)
        assert done == count * commits_each
        return done / (time.monotonic() - began)

    one = rate(1)
    many = rate(workers)
    name = f"{workers} processes, one branch, against 1"
    return [Figure(name, many, one, "commits/s", ">= 0.5", "higher", against="our own, 1 process")]


def branches(root: Path, rows: int) -> list[Figure]:
    few = create_small_graph(str(root / "types5"), extra_types=2)
    many = create_small_graph(str(root / "types200"), extra_types=197)
    small = populated(root / "rows1k", 1_000)
    large = populated(root / "rows-large", rows)
    return [
        Figure(
            "branch create, 200 types against 5",
            *branch_times(many, few),
            "ms",
            "<= 2",
            against="our own, 5 types",
        ),
        Figure(
            f"branch create, {rows} rows against 1000",
            *branch_times(large, small),
            "ms",
            "<= 2",
            against="our own, 1000 rows",
        ),
    ]


def branch_times(ours: Graph, reference: Graph) -> tuple[float, float]:
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(30):
        for graph, into in zip((ours, reference), times, strict=True):
            into.append(milliseconds(lambda g=graph, n=number: g.branches.create(f"b{n}")))
    return p50(times[0]), p50(times[1])


def populated(path: Path, rows: int) -> Graph:
    graph = init(str(path), small_catalog())
    ids = [f"n{number}" for number in range(rows)]
    graph.apply({"Note": {"insert": pa.table({"id": ids, "text": ids})}})
    return graph

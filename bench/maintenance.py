"""What age costs reads and commits, what upkeep takes, and where it should begin."""

from __future__ import annotations

import datetime as dt
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import lance

from bench.harness import Figure, milliseconds, p50, report
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph.settings.models import MaintenanceSettings, Settings
from omnigraph_testing.read_back import ReadBack
from omnigraph_testing.workloads import small_catalog

_YOUNG = "our own, a new graph with the same rows"
_VALUES = "the bytes of the values"
_LANCE = "Lance alone"
_USUAL = "our own, default settings"

AGES = {"small": (10, 400), "full": (10, 1000, 10_000)}
SAMPLES = 60
READ_BACK = {"tiny table": (64, 1), "large table": (20_000, 1), "two handles": (64, 2)}
"""Rows, and handles that take turns."""
READ_BACK_AGES = {"small": (90,), "full": (100, 1000, 10_000)}
READ_BACK_SAMPLES = {"small": 30, "full": 100}
THRESHOLDS = (8, 16, 32, 64, 128)
THRESHOLD_COMMITS = {"small": 0, "full": 600}
HOP = "query q($n: String) { match { $p: Person { name: $n } $p knows $f } return { $f.name } }"


def run(scale: str) -> None:
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        uri = str(Path(folder) / "graph")
        graph = init(uri, small_catalog())
        made = 0
        for age in AGES[scale]:
            for number in range(made, age):
                write(graph, number)
            made = age
            graph.engine.reconciler.settle()
            figures += ages(graph, Path(folder) / f"young{age}", age)
            made += 2 * SAMPLES  # those of the measurement
        figures += upkeep(graph, uri, made)
        if THRESHOLD_COMMITS[scale]:
            figures += thresholds(Path(folder), THRESHOLD_COMMITS[scale])
        figures += read_back(Path(folder), scale)
    notes = [
        "reference of reads and commits: a new graph with the same rows, turn by turn",
        "read back: each commit is followed by a 1-hop query of the row that it wrote, in handles",
        "that stay open; reference: new handles of a new graph, turn by turn",
        "reference of optimize and cleanup: Lance alone on the tables of a copy",
    ]
    report("maintenance", figures, [f"scale {scale}", *notes])


def ages(graph: Graph, place: Path, age: int) -> list[Figure]:
    """The same operations on this graph and on one that got its rows in one commit."""
    young = init(str(place), small_catalog())
    people = graph.read("Person", columns=["name", "age"]).to_pylist()
    knows = graph.read("Knows", columns=["id", "src", "dst"]).to_pylist()
    edges = [{"id": row["id"], "from": row["src"], "to": row["dst"]} for row in knows]
    young.apply({"Person": {"insert": people}, "Knows": {"insert": edges}})
    numbers = iter(range(age, age + 2 * SAMPLES))
    found = []
    for name, action in (("commit", write), ("point read", point), ("1-hop", hop)):
        times: tuple[list[float], list[float]] = ([], [])
        for turn in range(2 * SAMPLES):
            number = next(numbers) if action is write else turn
            for taken, which in zip(times, (graph, young), strict=True):
                taken.append(milliseconds(lambda a=action, g=which, n=number: a(g, n)))
        old, new = (p50(taken[SAMPLES // 2 :]) for taken in times)
        found.append(Figure(f"{name} at {age} commits", old, new, "ms", "<= 1.5", against=_YOUNG))
    return found


def read_back(folder: Path, scale: str) -> list[Figure]:
    """What a read costs right after a write, in a process that has seen many commits."""
    found = []
    samples = READ_BACK_SAMPLES[scale]
    for name, (rows, handles) in READ_BACK.items():
        old = ReadBack(folder / f"old {name}", rows, handles)
        for age in READ_BACK_AGES[scale]:
            old.run(age - samples)
            young = ReadBack(folder / f"young {name} {age}", rows, handles)
            young.run(samples // 3)
            for _ in range(samples):
                old.cycle()
                young.cycle()
            figure = f"read back at {age:,} commits, {name}"
            found.append(
                Figure(
                    figure,
                    old.p50(samples),
                    young.p50(samples),
                    "cpu ms",
                    "<= 1.3",
                    against="our own, new handles of a new graph",
                )
            )
    return found


def write(graph: Graph, number: int) -> None:
    name = f"p{number}"
    edits = {"Person": {"insert": [{"name": name, "age": number}]}}
    if number:
        edits["Knows"] = {"insert": [{"from": name, "to": "p0"}]}
    graph.apply(edits)


def point(graph: Graph, _: int = 0) -> None:
    graph.read("Person", ids=["p5"])


def hop(graph: Graph, _: int = 0) -> None:
    graph.query(HOP, params={"n": "p5"})


def upkeep(graph: Graph, uri: str, commits: int) -> list[Figure]:
    raw = sum(len(f"p{n}") * 4 + 24 for n in range(commits)) / 1e6
    before = graph.status().bytes / 1e6
    twin = Path(f"{uri}-twin")
    shutil.copytree(uri, twin)
    lance_optimize = milliseconds(lambda: for_each_table(twin, compact_and_index))
    optimize = milliseconds(graph.optimize)
    lance_cleanup = milliseconds(lambda: for_each_table(twin, drop_old_versions))
    chosen = Settings(maintenance=MaintenanceSettings(minimum_age_seconds=0))
    cleaner = open_graph(uri, settings=chosen)
    cleanup = milliseconds(lambda: cleaner.cleanup(keep=10, confirm=True))
    after = cleaner.status()
    return [
        Figure("size before cleanup", before, raw, "MB", "stated", against=_VALUES),
        Figure(
            "size after cleanup, 10 commits kept",
            after.bytes / 1e6,
            raw,
            "MB",
            "<= 10",
            against=_VALUES,
        ),
        Figure("commit log in it", after.history_bytes / 1e6, raw, "MB", "stated", against=_VALUES),
        Figure(
            "commit log, per commit",
            after.history_bytes / commits,
            float("nan"),
            "B/commit",
            "<= 1000 B/commit",
            against="",
        ),
        Figure("optimize", optimize, lance_optimize, "ms", "stated", against=_LANCE),
        Figure("cleanup", cleanup, lance_cleanup, "ms", "stated", against=_LANCE),
    ]


def for_each_table(graph: Path, action: Callable[[lance.LanceDataset], object]) -> None:
    """The floor of upkeep: Lance alone on a copy, without a check of what is still needed."""
    for table in [*graph.glob("nodes/*"), *graph.glob("edges/*")]:
        action(lance.dataset(str(table)))


def compact_and_index(table: lance.LanceDataset) -> None:
    table.optimize.compact_files()
    table.optimize.optimize_indices()


def drop_old_versions(table: lance.LanceDataset) -> None:
    table.cleanup_old_versions(older_than=dt.timedelta(0), delete_unverified=True)


def thresholds(folder: Path, commits: int) -> list[Figure]:
    """CPU of a commit, upkeep included, and of a point read between commits."""
    found = []
    usual = _cpu(folder / "usual", commits, MaintenanceSettings())
    for fragments in THRESHOLDS:
        chosen = MaintenanceSettings(fragments=fragments, look_every_commits=min(8, fragments))
        commit, read = _cpu(folder / f"at{fragments}", commits, chosen)
        found += [
            Figure(
                f"commit, compacted at {fragments}",
                commit,
                usual[0],
                "cpu ms",
                "stated",
                against=_USUAL,
            ),
            Figure(
                f"read, compacted at {fragments}",
                read,
                usual[1],
                "cpu ms",
                "stated",
                against=_USUAL,
            ),
        ]
    return found


def _cpu(place: Path, commits: int, chosen: MaintenanceSettings) -> tuple[float, float]:
    graph = init(str(place), small_catalog(), settings=Settings(maintenance=chosen))
    for number in range(100):
        write(graph, number)
    graph.engine.reconciler.settle()
    reads: list[float] = []
    began = time.process_time()
    for number in range(100, 100 + commits):
        write(graph, number)
        if number % 4 == 0:
            reads.append(_cpu_milliseconds(lambda: point(graph)))
    graph.engine.reconciler.settle()
    spent = (time.process_time() - began) * 1000 - sum(reads)
    return spent / commits, p50(reads)


def _cpu_milliseconds(action: Callable[[], object]) -> float:
    began = time.process_time()
    action()
    return (time.process_time() - began) * 1000

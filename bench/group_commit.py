"""Many small writers of one process against one writer: group commit.

Every round starts from a compacted table and makes the same number of commits with one writer and
with many, in turn, so that both see tables of the same shape and the same machine.

The same is measured on a store whose every request takes as long as one to S3, which is what group
commit is for. The store is a server of the tests on the same cores, so the requests of a commit are
a figure, too.
"""

from __future__ import annotations

import os
import resource
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.harness import Figure, p50, report
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.settings.models import MaintenanceSettings, Settings
from omnigraph_testing.s3_server import S3Server

WRITERS = 64
ROUNDS = {"small": 3, "full": 7}
COMMITS_EACH = 3
DISTANT_COMMITS = {"small": 5, "full": 15}
"""Commits of the one writer on the distant store. The others make two each."""
REQUEST_SECONDS = 0.02
SCHEMA = "node Note { text: String }"
TEXT = "query insert($text: String) { insert Note { text: $text } }"


@dataclass
class Measured:
    """Commits of some writers: how long all of them took, each of them, and the processor."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    waits: list[float] = field(default_factory=list)

    @property
    def commits_per_second(self) -> float:
        return len(self.waits) / self.seconds

    @property
    def cpu_ms_per_commit(self) -> float:
        return self.cpu_seconds * 1000 / len(self.waits)

    @property
    def p99(self) -> float:
        return sorted(self.waits)[int(len(self.waits) * 0.99)]


def run(scale: str) -> None:
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        found = figures(Path(folder), ROUNDS[scale])
    found += distant_figures(DISTANT_COMMITS[scale])
    notes = [f"scale {scale}", f"{WRITERS} threads that write one row after the other"]
    report("group_commit", found, notes)


def figures(folder: Path, rounds: int) -> list[Figure]:
    # Upkeep runs between the rounds, not beside them, so that both sides see the same.
    settings = Settings(maintenance=MaintenanceSettings(automatic=False))
    graph = init(str(folder / "graph"), SCHEMA, settings=settings)
    for _ in range(20):
        insert(graph)
    one, many = Measured(), Measured()
    for _ in range(rounds):
        for into, writers in ((one, 1), (many, WRITERS)):
            graph.optimize()
            measure(graph, writers, WRITERS * COMMITS_EACH // writers, into)
    graph.close()
    return [
        Figure(
            f"{WRITERS} writers, one row each",
            many.commits_per_second,
            one.commits_per_second,
            "commits/s",
            ">= 3",
            "higher",
            against="our own, one writer",
        ),
        Figure(
            f"{WRITERS} writers, p99 of a commit",
            many.p99 * 1000,
            p50(many.waits) * 1000,
            "ms",
            "< 5",
            against="our own, p50 of the same writers",
        ),
        Figure(
            f"{WRITERS} writers, processor time of a commit",
            many.cpu_ms_per_commit,
            one.cpu_ms_per_commit,
            "ms",
            "stated",
            against="our own, one writer",
        ),
    ]


def distant_figures(commits: int) -> list[Figure]:
    settings = Settings(maintenance=MaintenanceSettings(automatic=False))
    one, many = Measured(), Measured()
    with S3Server(REQUEST_SECONDS) as server:
        os.environ.update(server.environment())
        graph = init("s3://graphs/group-commit", SCHEMA, settings=settings)
        for _ in range(5):
            insert(graph)
        with server.recorded() as alone:
            measure(graph, 1, commits, one)
        with server.recorded() as together:
            measure(graph, WRITERS, 2, many)
        graph.close()
    where = f"requests of {REQUEST_SECONDS * 1000:.0f} ms"
    return [
        Figure(
            f"{WRITERS} writers, {where}",
            many.commits_per_second,
            one.commits_per_second,
            "commits/s",
            ">= 3",
            "higher",
            against="our own, one writer on the same store",
        ),
        Figure(
            f"{WRITERS} writers, requests of a commit",
            len(together) / len(many.waits),
            len(alone) / len(one.waits),
            "requests",
            "stated",
            against="our own, one writer on the same store",
        ),
    ]


def insert(graph: Graph) -> None:
    assert graph.mutate(TEXT, "insert", {"text": "x"}).commit is not None


def measure(graph: Graph, writers: int, commits_each: int, into: Measured) -> None:
    waits: list[list[float]] = [[] for _ in range(writers)]

    def work(own: list[float]) -> None:
        for _ in range(commits_each):
            began = time.perf_counter()
            insert(graph)
            own.append(time.perf_counter() - began)

    threads = [threading.Thread(target=work, args=(own,)) for own in waits]
    cpu, began = _cpu_seconds(), time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    into.seconds += time.perf_counter() - began
    into.cpu_seconds += _cpu_seconds() - cpu
    into.waits += [wait for own in waits for wait in own]


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

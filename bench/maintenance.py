"""What age costs: reads and commits after many commits, and what upkeep takes."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.harness import Figure, milliseconds, p50, report
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph.settings.maintenance import MaintenanceSettings
from omnigraph.settings.models import Settings
from omnigraph.testing.workloads import small_catalog

AGES = {"small": (10, 1000), "full": (10, 1000, 10_000)}
SAMPLES = 30
HOP = "query q($n: String) { match { $p: Person { name: $n } $p knows $f } return { $f.name } }"


def run(scale: str) -> None:
    ages = AGES[scale]
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        uri = str(Path(folder) / "graph")
        graph = init(uri, small_catalog())
        made = 0
        young: dict[str, float] = {}
        for age in ages:
            commit = [milliseconds(lambda n=n: write(graph, n)) for n in range(made, age)]
            made = age
            graph.engine.reconciler.settle()
            measured = {
                "commit": p50(commit[-100:]),
                "point read": p50([milliseconds(lambda: point(graph)) for _ in range(SAMPLES)]),
                "1-hop": p50([milliseconds(lambda: hop(graph)) for _ in range(SAMPLES)]),
            }
            young = young or measured
            figures += [
                Figure(f"{name} at {age} commits", measured[name], young[name], "ms", "<= 1.5")
                for name in measured
            ]
        figures += upkeep(graph, uri, made)
    report("maintenance", figures, [f"scale {scale}", "reference: the same at 10 commits"])


def write(graph: Graph, number: int) -> None:
    name = f"p{number}"
    edits = {"Person": {"insert": [{"name": name, "age": number}]}}
    if number:
        edits["Knows"] = {"insert": [{"from": name, "to": "p0"}]}
    graph.apply(edits)


def point(graph: Graph) -> None:
    graph.read("Person", ids=["p5"])


def hop(graph: Graph) -> None:
    graph.query(HOP, params={"n": "p5"})


def upkeep(graph: Graph, uri: str, commits: int) -> list[Figure]:
    raw = sum(len(f"p{n}") * 4 + 24 for n in range(commits)) / 1e6
    before = graph.status().bytes / 1e6
    optimize = milliseconds(graph.optimize)
    chosen = Settings(maintenance=MaintenanceSettings(minimum_age_seconds=0))
    cleaner = open_graph(uri, settings=chosen)
    cleanup = milliseconds(lambda: cleaner.cleanup(keep=10, confirm=True))
    after = cleaner.status().bytes / 1e6
    return [
        Figure("size before cleanup", before, raw, "MB", "reported"),
        Figure("size after cleanup, 10 commits kept", after, raw, "MB", "reported"),
        Figure("optimize", optimize, float("nan"), "ms", "reported"),
        Figure("cleanup", cleanup, float("nan"), "ms", "reported"),
    ]

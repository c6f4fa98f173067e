"""A cluster in which nothing changed: plan, apply and the start of a server, and requests to S3.

The reference of a command is the least that it could do: to parse the schemas and to open every
graph once. Processor time is measured, because the commands mostly wait on a busy machine.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.harness import Figure, report
from omnigraph.cluster import commands
from omnigraph.cluster.session import ApplyTerms, ClusterCall
from omnigraph.graph.open import open_graph
from omnigraph.schema.build import catalog_from_text
from omnigraph.server.boot import build_state, open_graphs
from omnigraph.server.configuration import ServerSettings
from omnigraph_testing.s3_server import S3Server

GRAPHS = {"small": 20, "full": 100}
TYPES = 20
ROUNDS = 3
QUERIES = (
    "query named($name: String) { match { $t: T1 { name: $name } } return { $t.name as name } }\n"
    "query total() { match { $t: T2 } return { count($t) as n } }\n"
)


def run(scale: str) -> None:
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        found = [*local_figures(Path(folder) / "local", GRAPHS[scale])]
        found += bucket_figures(Path(folder))
    notes = [f"scale {scale}: {GRAPHS[scale]} graphs of {TYPES} types, two stored queries each"]
    report("cluster", found, notes)


def declare(folder: Path, graphs: int, types: int, storage: str | None = None) -> ClusterCall:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "queries.gq").write_text(QUERIES)
    lines = ["version: 1", *([f"storage: {storage}"] if storage else []), "graphs:"]
    for number in range(graphs):
        (folder / f"g{number}.pg").write_text(schema(number, types))
        lines.append(f"  g{number}: {{schema: g{number}.pg, queries: queries.gq}}")
    (folder / "cluster.yaml").write_text("\n".join(lines) + "\n")
    return ClusterCall(str(folder))


def schema(number: int, types: int) -> str:
    names = range(max(types, 3))
    return "".join(f"node T{n} {{ name: String @key\n  p{number}: I64? }}\n" for n in names)


def cpu_seconds(action: Callable[[], object]) -> float:
    """The least of some rounds, because other processes only ever add to it."""
    found = []
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_SELF)
        action()
        after = resource.getrusage(resource.RUSAGE_SELF)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found)


def local_figures(folder: Path, graphs: int) -> list[Figure]:
    call = declare(folder, graphs, TYPES)
    assert commands.apply(call, ApplyTerms()).body["converged"]
    uris = [str(folder / "graphs" / f"g{number}.omni") for number in range(graphs)]

    def parse_and_open() -> None:
        for number, uri in enumerate(uris):
            catalog_from_text(schema(number, TYPES))
            with open_graph(uri, read_only=True) as graph:
                graph.schema.show()

    floor = cpu_seconds(parse_and_open)
    against = "a bound: parse every schema, open every graph"
    planned = cpu_seconds(lambda: commands.plan(call, ApplyTerms()))
    applied = cpu_seconds(lambda: commands.apply(call, ApplyTerms()))
    began = time.perf_counter()
    booted = cpu_seconds(lambda: boot(folder))
    wall = (time.perf_counter() - began) / ROUNDS
    bound = 3.0 * graphs / GRAPHS["full"]
    return [
        Figure("plan, nothing changed", planned, floor, "s", f"< {bound:g} s", against=against),
        Figure("apply, nothing changed", applied, floor, "s", f"< {bound:g} s", against=against),
        Figure("start of a server, CPU", booted, floor, "s", "<= 4", against=against),
        Figure("start of a server", wall, floor, "s", "< 10 s", against=against),
    ]


def boot(folder: Path) -> None:
    settings = ServerSettings(cluster=str(folder), unauthenticated=True)
    state = build_state({}, settings, os.environ)
    open_graphs(state)
    state.graphs.close()
    for pool in (state.reads, state.writes, state.streams):
        pool.shutdown(wait=False)


def bucket_figures(folder: Path) -> list[Figure]:
    """Requests of an apply with nothing to do: for one graph, by its number of types."""
    with S3Server() as server:
        os.environ.update(server.environment())
        counts = []
        for types in (3, TYPES):
            call = declare(folder / f"s3-{types}", 1, types, f"s3://graphs/{types}-types")
            assert commands.apply(call, ApplyTerms()).body["converged"]
            with server.recorded() as requests:
                commands.apply(call, ApplyTerms())
            counts.append(len(requests))
    return [
        Figure(
            f"requests of an apply, {TYPES} types",
            counts[1],
            counts[0],
            "requests",
            "<= 1",
            against="our own, 3 types",
        )
    ]

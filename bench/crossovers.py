"""Where one way of getting at a table becomes cheaper than another: what the thresholds of
`execute` are set by. Processor time, the least of several runs, milliseconds."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import omnigraph
from bench import social
from bench.query import load, with_ids
from omnigraph import Edit
from omnigraph.execute.topology.table_states import DeriveLimits
from omnigraph.execute.views.snapshot_views import SnapshotViews, ViewCache
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.reads.scan import read_table
from omnigraph.values.conditions import Condition
from omnigraph.values.identifiers import edge_table, node_table

SIZES = {"small": (2_000, 20_000, 100_000), "full": (2_000, 5_000, 20_000, 100_000, 1_000_000)}
IDS = (1, 10, 100, 500, 2_000)
SOURCES = (1, 16, 64, 256)
CHANGES = (1, 100, 1_000, 5_000, 20_000, 50_000)
REPEATS = 3
ALWAYS = DeriveLimits(
    smallest_table=0, most_ids=10**9, most_share=1e9, settle_ids=10**9, steps_share=1e9
)
PERSON, KNOWS = node_table("Person"), edge_table("Knows")
COLUMNS = ["pid", "name", "age", "city"]


def run(scale: str) -> None:
    for persons in SIZES[scale]:
        with small_graph(persons) as graph:
            print(f"\n{persons:,} persons, 10 friendships each; processor ms")
            reads(graph)
            for changed in CHANGES:
                if changed < persons:
                    show(f"after {changed:,} changes", after_changes(graph, changed))


def reads(graph: omnigraph.Graph) -> None:
    nodes, edges = (views(graph).table(key).dataset for key in (PERSON, KNOWS))
    show("read, sort, one column", {"": cpu(lambda: whole(graph))})
    show("rows by id", {n: cpu(lambda n=n: by_id(nodes, n)) for n in IDS})
    show("rows by a filter (age, 1 in 72)", {"": cpu(lambda: by_filter(nodes))})
    show("adjacency", {"": cpu(lambda: adjacency(graph))})
    show("edges by source", {n: cpu(lambda n=n: by_source(edges, nodes, n)) for n in SOURCES})


@contextmanager
def small_graph(persons: int) -> Iterator[omnigraph.Graph]:
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        load(Path(folder, "graph"), social.make(persons))
        graph = omnigraph.open(str(Path(folder, "graph")))
        graph.ensure_indices()
        yield graph


def show(what: str, figures: dict[Any, float]) -> None:
    print(f"  {what:32}", "  ".join(f"{name}: {value:.2f}" for name, value in figures.items()))


def cpu(action: Callable[[], object], repeats: int = REPEATS) -> float:
    times = []
    for _ in range(repeats):
        began = time.process_time()
        action()
        times.append((time.process_time() - began) * 1000)
    return min(times)


def views(graph: omnigraph.Graph, cache: ViewCache | None = None) -> SnapshotViews:
    cache = cache or ViewCache(graph.engine.reader, 1 << 34)
    return SnapshotViews(graph.snapshot(), cache)


def whole(graph: omnigraph.Graph) -> object:
    table = views(graph).table(PERSON)
    return table.ids, table.column("name")


def adjacency(graph: omnigraph.Graph) -> object:
    return views(graph).adjacency("Knows").out.nodes


def by_id(dataset: Any, count: int) -> object:
    ids = [str(n) for n in np.linspace(0, dataset.count_rows() - 1, count).astype(int)]
    return find_rows(dataset, pa.array(ids), COLUMNS)


def by_filter(dataset: Any) -> object:
    return read_table(dataset, ["id", "name", "age"], [Condition("age", "=", (33,))])


def by_source(edges: Any, nodes: Any, count: int) -> object:
    """One hop as `index_expand` does it: the edges, then the nodes they lead to."""
    ids = [str(n) for n in np.linspace(0, nodes.count_rows() - 1, count).astype(int)]
    found = find_rows(edges, pa.array(ids), ["dst"], key="src")
    return find_rows(nodes, found.column("dst").combine_chunks().unique(), COLUMNS)


def after_changes(graph: omnigraph.Graph, changed: int) -> dict[str, float]:
    """A commit of so many rewritten persons and new friendships, then the state after it."""
    derived = ViewCache(graph.engine.reader, 1 << 34, limits=ALWAYS)
    alone = ViewCache(
        graph.engine.reader,
        1 << 34,
        limits=DeriveLimits(0, 10**9, 1e9, settle_ids=0, steps_share=1e9),
    )
    for cache in (derived, alone):
        touch(views(graph, cache))
    pids = np.arange(changed)
    persons = {"pid": pids, "name": ["x"] * changed, "age": pids % 9, "city": ["c"] * changed}
    ends = {"from": pids.astype(str), "to": pids.astype(str), "since": pids.astype(np.int32)}
    stamp = time.monotonic_ns()
    edges = with_ids(f"n{stamp}-", pa.table(ends))
    graph.apply({"Person": Edit(upsert=pa.table(persons)), "Knows": Edit(insert=edges)})
    return {
        "read anew": cpu(lambda: touch(views(graph)), 1),
        "derived": cpu(lambda: touch(views(graph, derived)), 1),
        "derived, a point": cpu(lambda: point(views(graph, derived))),
        "standing alone": cpu(lambda: touch(views(graph, alone)), 1),
        "alone, a point": cpu(lambda: point(views(graph, alone))),
    }


def touch(found: SnapshotViews) -> object:
    """What a query over everything asks for."""
    table = found.table(PERSON)
    return table.ids, table.column("name"), found.adjacency("Knows").out.nodes


def point(found: SnapshotViews) -> object:
    near = found.adjacency("Knows").out
    table = found.table(PERSON)
    return near.follow(np.array([table.find_one("1")], np.int32))

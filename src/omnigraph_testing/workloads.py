"""A small graph and the writers that crash and race on it, runnable in child processes."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import Any

import lance
import pyarrow as pa

from omnigraph.catalog.model import Catalog, EdgeType, Key, NodeType, Property
from omnigraph.errors import OmnigraphError
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph.merge import operation, output, tables
from omnigraph.settings.models import MaintenanceSettings, PipelineSettings, Settings, WriteSettings
from omnigraph.values.identifiers import node_table
from omnigraph.values.scalars import ScalarKind, ScalarType
from omnigraph_testing.crash import Report
from omnigraph_testing.engine_parts import with_parts
from omnigraph_testing.merge_tasks_here import tasks_here
from omnigraph_testing.peak_memory import PeakMemory

LEASE = 2.0


def settings(lease: float = LEASE) -> Settings:
    """No upkeep in the background: it would add requests and versions to those a test counts."""
    return Settings(
        write=WriteSettings(lease_seconds=lease),
        maintenance=MaintenanceSettings(automatic=False),
    )


def small_catalog(extra_types: int = 0) -> Catalog:
    text = ScalarType(ScalarKind.STRING)
    number = ScalarType(ScalarKind.I64)
    people = NodeType(
        "Person",
        (Property("name", text), Property("age", number, nullable=True)),
        (Key(("name",)),),
    )
    notes = NodeType("Note", (Property("text", text),))
    extra = tuple(NodeType(f"Extra{i}", (Property("text", text),)) for i in range(extra_types))
    knows = EdgeType("Knows", "Person", "Person", (Property("since", number, nullable=True),))
    return Catalog(nodes=(people, notes, *extra), edges=(knows,))


def create_small_graph(uri: str, *, extra_types: int = 0, lease: float = LEASE) -> Graph:
    graph = init(uri, small_catalog(extra_types), actor="tester", settings=settings(lease))
    graph.apply(
        {
            "Person": {"insert": [{"name": "ada", "age": 1}, {"name": "bob", "age": 2}]},
            "Note": {"insert": [{"id": "n0", "text": "first"}]},
            "Knows": {"insert": [{"id": "k0", "from": "ada", "to": "bob"}]},
        },
        message="seed",
    )
    return graph


def write_three_tables(
    report: Report, uri: str, branch: str = "main", lease: float = LEASE
) -> None:
    """One commit: an update, an insert and a delete on three tables."""
    graph = open_graph(uri, actor="victim", settings=settings(lease))
    report("open")
    receipt = graph.apply(THREE_TABLES, branch, message="three tables")
    report(receipt.commit.graph_commit_id if receipt.commit else None)


THREE_TABLES: dict[str, Any] = {
    "Person": {"upsert": [{"name": "ada", "age": 10}, {"name": "cy", "age": 3}]},
    "Note": {"insert": [{"id": "n1", "text": "second"}]},
    "Knows": {"delete": ["k0"]},
}


def create_one_branch(report: Report, uri: str, name: str) -> None:
    graph = open_graph(uri, actor="victim", settings=settings())
    graph.branches.create(name)
    report(name)


def delete_one_branch(report: Report, uri: str, name: str) -> None:
    graph = open_graph(uri, actor="victim", settings=settings())
    graph.branches.delete(name)
    report(name)


def merge_review(report: Report, uri: str) -> None:
    graph = open_graph(uri, actor="victim", settings=settings())
    report(graph.merge("review").outcome)


def merge_review_beside_others(report: Report, uri: str) -> None:
    """As a large merge is made: computed before it is its turn, its rows in scratch files."""
    operation.LARGE = 0
    output.ROWS_IN_MEMORY = 0
    merge_review(report, uri)


def merge_review_by_tasks(report: Report, uri: str) -> None:
    """As Spark merges: files of every table are written before it is the merge's turn."""
    with tasks_here() as waves:
        merge_review(report, uri)
        report(len(waves))


def merge_review_on_spark(report: Report, uri: str) -> None:
    spark = PipelineSettings(master="local[2,4]", driver_memory="600m")
    opened = open_graph(uri, actor="victim", settings=replace(settings(), pipeline=spark))
    merger = replace(opened.engine.spark_merger, few_ids=0)
    graph = with_parts(opened, spark_merger=merger)
    report("open")
    report(graph.merge("review", engine="spark").outcome)


def merge_review_measured(report: Report, uri: str, bytes_at_once: int) -> None:
    """A merge in pieces of so many bytes; reports the bytes of memory it took at its peak."""
    tables.CHUNK_BYTES = output.BYTES_IN_MEMORY = bytes_at_once
    output.BYTES_PER_FRAGMENT = 4 * bytes_at_once
    graph = open_graph(uri, actor="victim", settings=settings())
    with PeakMemory() as memory:
        graph.merge("review")
    report(memory.growth)


def revert_beside_others(report: Report, uri: str, commit_id: str) -> None:
    operation.LARGE = 0
    output.ROWS_IN_MEMORY = 0
    graph = open_graph(uri, actor="victim", settings=settings())
    report(graph.revert(commit_id).branch)


def rename_branch(report: Report, uri: str) -> None:
    graph = open_graph(uri, actor="victim", settings=settings())
    report(graph.branches.rename("old", "new").name)


def create_graph(report: Report, uri: str) -> None:
    init(uri, small_catalog(), settings=settings())
    report(uri)


def only_open(report: Report, uri: str) -> None:
    open_graph(uri, actor="recoverer", settings=settings())
    report("open")


def repair_all(report: Report, uri: str) -> None:
    graph = open_graph(uri, actor="victim", settings=settings())
    report(len(graph.repair(confirm=True).drift))


def leave_orphan_head(graph: Graph, branch: str = "main") -> None:
    """Append a row to the table of notes as a foreign program would: no intent, no publication."""
    pin = graph.snapshot(branch).tables[node_table("Note")]
    rows = pa.table({"id": ["orphan"], "text": ["orphan"]}, schema=graph.read("Note").schema)
    place = graph.engine.store.dataset_uri(pin.location, pin.branch)
    lance.write_dataset(rows, place, mode="append")


def optimize_all(report: Report, uri: str) -> None:
    graph = open_graph(uri, actor="victim", settings=settings())
    report(graph.optimize())


def endless_writer(report: Report, uri: str, name: str, seed: int, commits: int = 10_000) -> None:
    """Commits of one to three tables, each acknowledged by its marker; for random kills."""
    graph = open_graph(uri, actor=name, settings=settings())
    chance = random.Random(seed)
    report("open")
    for number in range(commits):
        marker = f"{name}-{number}"
        edits: dict[str, Any] = {"Note": {"insert": [{"id": marker, "text": marker}]}}
        if chance.random() < 0.5:
            edits["Person"] = {"upsert": [{"name": marker, "age": number}]}
        if chance.random() < 0.5:
            edits["Knows"] = {"insert": [{"id": marker, "from": "ada", "to": "bob"}]}
        receipt = graph.apply(edits, message=marker)
        assert receipt.commit is not None
        report([marker, sorted(edits), receipt.commit.graph_commit_id])


def racing_writer(
    report: Report, uri: str, name: str, own_table: str, commits: int, lease: float = LEASE
) -> None:
    """Half the commits to a table of its own, half to one that everybody wants."""
    graph = open_graph(uri, actor=name, settings=settings(lease))
    report("open")
    for number in range(commits):
        marker = f"{name}-{number}"
        table = own_table if number % 2 else "Note"
        row = {"id": marker, "text": marker}
        began = time.monotonic()
        try:
            receipt = graph.apply({table: {"insert": [row]}}, message=marker)
        except OmnigraphError as error:
            report({"failed": marker, "error": error.to_dict()})
        else:
            assert receipt.commit is not None
            report(
                {
                    "done": marker,
                    "table": table,
                    "commit": receipt.commit.graph_commit_id,
                    "seconds": time.monotonic() - began,
                }
            )


def cleanup_at_once(report: Report, uri: str, keep: int = 2) -> None:
    chosen = Settings(maintenance=MaintenanceSettings(minimum_age_seconds=0))
    report(open_graph(uri, actor="cleaner", settings=chosen).cleanup(keep, confirm=True).bytes)


def index_all(report: Report, uri: str, branch: str = "main") -> None:
    graph = open_graph(uri, actor="victim", settings=settings())
    report(graph.ensure_indices(branch))


def index_while_told(report: Report, uri: str, rounds: int) -> None:
    """Index again and again while others write."""
    graph = open_graph(uri, actor="indexer", settings=settings())
    report("open")
    report([graph.ensure_indices() for _ in range(rounds)])


def load_file(
    report: Report,
    uri: str,
    path: str,
    mode: str,
    lease: float = LEASE,
    branch: str = "main",
    from_branch: str | None = None,
    engine: str = "local",
) -> None:
    """One load of a file."""
    spark = PipelineSettings(master="local[2,4]", driver_memory="600m", task_bytes=300)
    chosen = replace(settings(lease), pipeline=spark)
    graph = open_graph(uri, actor="victim", settings=chosen)
    report("open")
    receipt = graph.load(path, mode, branch=branch, from_branch=from_branch, engine=engine)
    report(receipt.commit.graph_commit_id if receipt.commit else None)

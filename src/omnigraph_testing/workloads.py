"""A small graph, and workloads on it that run in child processes, where they crash and race.

`omnigraph_testing.crash` runs them by name. Each gets `report`, which acknowledges to the test.
"""

from __future__ import annotations

import os
import random
import re
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import lance
import pyarrow as pa

from omnigraph.catalog.model import Catalog, EdgeType, Key, NodeType, Property
from omnigraph.commit import group
from omnigraph.errors import OmnigraphError
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph.merge import operation, output, tables
from omnigraph.settings.models import MaintenanceSettings, PipelineSettings, Settings, WriteSettings
from omnigraph.values.identifiers import node_table
from omnigraph.values.scalars import ScalarKind, ScalarType
from omnigraph_testing.crash import Report
from omnigraph_testing.graph_helpers import together, with_parts
from omnigraph_testing.invariants import content
from omnigraph_testing.merge_tasks_here import tasks_here

LEASE = 2.0
LONG_LEASE = 60.0
_GATE_SECONDS = 120.0
_UNPRIVILEGED_USER = 65534
_MEMORY_STATUS = Path("/proc/self/status")
_ANONYMOUS = re.compile(r"RssAnon:\s+(\d+) kB")
_MEMORY_POLL_SECONDS = 0.005


def settings(lease: float = LEASE) -> Settings:
    """No upkeep in the background, because it would add requests and versions that tests count."""
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


def apply_schema(
    report: Report,
    uri: str,
    schema: str,
    branch: str = "main",
    backfill: dict[str, Any] | None = None,
) -> None:
    graph = open_graph(uri, actor="victim", settings=settings())
    report("open")
    result = graph.schema.apply(schema, branch=branch, backfill=backfill, message="evolve")
    report(result.commit.graph_commit_id if result.commit else None)


def evolve_in_circles(report: Report, uri: str, circle: list[dict[str, Any]], done: int) -> None:
    """Apply the changes one after the other until the process is killed."""
    graph = open_graph(uri, actor="victim", settings=settings())
    report("open")
    while True:
        done += 1
        report({"begun": done})
        change = circle[done % len(circle)]
        result = graph.schema.apply(**change, message=f"change {done}")
        assert result.commit is not None
        report({"done": done, "commit": result.commit.graph_commit_id})


def insert_people(
    report: Report,
    uri: str,
    name: str,
    row: dict[str, Any],
    commits: int,
    type_name: str = "Person",
) -> None:
    """One row in each commit. Reports what was committed and what was refused, by name."""
    graph = open_graph(uri, actor=name, settings=settings())
    report("open")
    for number in range(commits):
        marker = f"{name}-{number}"
        try:
            graph.apply({type_name: {"insert": [{"name": marker, **row}]}}, message=marker)
        except OmnigraphError as error:
            report({"failed": marker, "error": error.to_dict()})
        else:
            report({"done": marker})


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
    """A merge made like a large one: computed before its turn, with its rows in scratch files."""
    operation.LARGE = 0
    output.ROWS_IN_MEMORY = 0
    merge_review(report, uri)


def merge_review_by_tasks(report: Report, uri: str) -> None:
    """A merge made like one on Spark: the files of every table are written before its turn."""
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
    """A merge in pieces of `bytes_at_once`. Reports how many bytes its memory grew at the peak."""
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


def keyed_load(report: Report, uri: str, key: str) -> None:
    graph = open_graph(uri, actor="victim", settings=settings())
    graph.load([{"type": "Note", "data": {"id": key, "text": key}}], idempotency_key=key)
    report("loaded")


def keyed_branch_change(report: Report, uri: str, operation: str) -> None:
    """Create, rename or delete a branch with the key `k`."""
    graph = open_graph(uri, actor="tester", settings=settings())
    report(change_branch(graph, operation))


def change_branch(graph: Graph, operation: str) -> bool:
    """Whether an earlier request did it."""
    if operation == "create":
        return graph.branches.create("new", idempotency_key="k").repeated
    if operation == "rename":
        return graph.branches.rename("old", "new", idempotency_key="k").repeated
    return graph.branches.delete("old", idempotency_key="k")


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
    """Commits of one to three tables, each reported with its marker. For random kills."""
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


def group_of_writers(
    report: Report,
    uri: str,
    name: str,
    writers: int,
    branch: str = "main",
    lease: float = LONG_LEASE,
) -> None:
    """Threads that queue together, so that one leads the others. Each writes two tables.

    A group takes no further write after a part of the lease, here after all of it. A long lease
    lets it take all of them on a busy machine, too.
    """
    graph = open_graph(uri, actor=name, settings=settings(lease))
    group._LONGEST_SECONDS, group._LEASE_PART = lease, 1  # noqa: SLF001 - only tests need it
    report("open")

    def write(number: int) -> None:
        marker = f"{name}-{number}"
        receipt = graph.apply(
            {
                "Note": {"insert": [{"id": marker, "text": marker}]},
                "Person": {"upsert": [{"name": marker, "age": number}]},
            },
            branch,
            message=marker,
        )
        assert receipt.commit is not None
        report([marker, receipt.commit.graph_commit_id])

    writes = [partial(write, number) for number in range(writers)]
    for outcome in together(graph, *writes, branch=branch):
        if isinstance(outcome, BaseException):
            raise outcome


def threads_of_writers(report: Report, uri: str, name: str, threads: int, commits: int) -> None:
    """Threads that write one row after the other. Reports each row with its commit."""
    graph = open_graph(uri, actor=name, settings=settings())
    report("open")

    def work(thread: int) -> None:
        for number in range(commits):
            marker = f"{name}-{thread}-{number}"
            row = {"id": marker, "text": marker}
            receipt = graph.apply({"Note": {"insert": [row]}}, message=marker)
            assert receipt.commit is not None
            report([marker, receipt.commit.graph_commit_id])

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))


def racing_writer(
    report: Report, uri: str, name: str, own_table: str, commits: int, lease: float = LEASE
) -> None:
    """Half the commits go to a table that only this writer uses, half to a shared one."""
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
    """Index `rounds` times while other processes write."""
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


def load_at_the_gate(report: Report, uri: str, path: str, mode: str, gate: str) -> None:
    """Load a file when `gate` appears. Reports whether there was something to commit."""
    graph = open_graph(uri, actor="racer", settings=settings())
    report("ready")
    _wait_for(Path(gate))
    report(graph.load(path, mode, engine="local").commit is not None)


def mutate_once(report: Report, uri: str, source: str) -> None:
    graph = open_graph(uri, actor="victim", settings=settings())
    report(graph.mutate(source, message="once").to_dict())


def mutate_in_step(report: Report, uri: str, sources: list[str], gates: str) -> None:
    """Run source number n when the file `<gates>/<n>` appears. Reports each outcome."""
    graph = open_graph(uri, actor="racer", settings=settings())
    report("open")
    for number, source in enumerate(sources):
        _wait_for(Path(gates) / str(number))
        try:
            receipt = graph.mutate(source)
        except OmnigraphError as error:
            report({"error": error.code, "retryable": error.retryable})
        else:
            assert receipt.commit is not None
            report({"commit": receipt.commit.graph_commit_id})


def _wait_for(gate: Path) -> None:
    until = time.monotonic() + _GATE_SECONDS
    while not gate.exists():
        assert time.monotonic() < until, f"{gate} did not appear"
        time.sleep(0.0005)


# Workloads that give up root first, because root ignores the permissions of files.


def open_unprivileged(report: Report, uri: str) -> None:
    """Report what a read-only open reads and what a read-write open raises."""
    _give_up_root()
    report(content(open_graph(uri, read_only=True)))
    try:
        open_graph(uri)
    except OmnigraphError as error:
        report(error.to_dict())
    else:
        report("opened for writing")


def load_unprivileged(report: Report, uri: str, schema: str, data: str) -> None:
    """Report the error of a load into a new graph, and the content of the graph afterwards."""
    _give_up_root()
    graph = init(uri, schema)
    try:
        graph.load(data)
    except OmnigraphError as error:
        report(error.to_dict())
    else:
        report("loaded")
    report(content(graph))


def _use_everything_once() -> None:
    """Import all modules that the workload needs, which happens on first use.

    An unprivileged user may not be able to read the files of the interpreter.
    """
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "in.ndjson"
        data.write_text('{"type": "Any", "data": {"name": "a"}}\n')
        graph = init(Path(folder) / "g.omni", "node Any { name: String @key }")
        graph.load(data)
        content(open_graph(graph.uri))


def _give_up_root() -> None:
    _use_everything_once()
    if os.geteuid() == 0:
        os.setgid(_UNPRIVILEGED_USER)
        os.setuid(_UNPRIVILEGED_USER)


class PeakMemory:
    """The memory that a block of code takes at its peak.

    Counts anonymous pages, because the system can drop mapped files.
    """

    def __init__(self) -> None:
        self._before = self._peak = 0
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._before = self._peak = anonymous_bytes()
        self._watcher.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._watcher.join()

    @property
    def growth(self) -> int:
        return self._peak - self._before

    def _watch(self) -> None:
        while not self._stop.wait(_MEMORY_POLL_SECONDS):
            self._peak = max(self._peak, anonymous_bytes())


def anonymous_bytes() -> int:
    found = _ANONYMOUS.search(_MEMORY_STATUS.read_text())
    assert found is not None
    return int(found.group(1)) * 1024

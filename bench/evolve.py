"""Schema changes: metadata steps on two sizes, checks against DuckDB, rewrites against Lance.

The checks run in DuckDB on the bare column that was read from the same Lance dataset, and the
rewrites against `merge_columns` of Lance with the same expression, committed nowhere.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from bench.harness import Figure, milliseconds, report
from bench.process_tree import tree
from omnigraph import Graph, init
from omnigraph.values.identifiers import node_table

SIZES = {"small": (10_000, 400_000), "full": (10_000, 10_000_000)}
ROWS_AT_ONCE = 1_000_000
ROUNDS = 5
SCHEMA = """
node Item { name: String @key  code: I64?  size: I32?  kind: enum(a, b)  note: String? }
node Other { text: String }
"""


def run(scale: str) -> None:
    small, large = SIZES[scale]
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        young, old = (make(Path(folder) / str(n), n) for n in (small, large))
        figures = list(metadata(young, old, small, large))
        checked, notes = checks(old, large)
        figures += checked
        figures += rewrites(old, large)
        figures += neighbours(old, large)
    report("evolve", figures, [f"scale {scale}", *notes])


def make(folder: Path, count: int) -> Graph:
    graph = init(str(folder), SCHEMA)
    for start in range(0, count, ROWS_AT_ONCE):
        rows = min(ROWS_AT_ONCE, count - start)
        numbers = np.arange(start, start + rows)
        names = pa.array([f"item{n:08}" for n in numbers])
        items = {
            "name": names,
            "code": numbers,
            "size": (numbers % 1000).astype(np.int32),
            "kind": pa.array(["a", "b"]).take(pa.array(numbers % 2)),
            "note": names,
        }
        graph.load(pa.table(items), type="Item", mode="append", engine="local")
    graph.apply({"Other": {"insert": [{"text": "first"}]}})
    return graph


def metadata(young: Graph, old: Graph, small: int, large: int) -> Iterator[Figure]:
    """Each step and back again, so that all rounds start from the same schema."""
    steps = {
        "add a nullable property": SCHEMA.replace("note: String?", "note: String?  more: F64?"),
        "rename a property": SCHEMA.replace("note:", "memo:").replace(
            "memo: String?", 'memo: String? @rename_from("note")'
        ),
        "allow more enum values": SCHEMA.replace("enum(a, b)", "enum(a, b, c)"),
        "drop a property": SCHEMA.replace("  note: String?", ""),
    }
    for words, text in steps.items():
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(ROUNDS):
            for graph, into in zip((young, old), times, strict=True):
                into.append(milliseconds(lambda g=graph, t=text: applied(g, t)))
                undo(graph)
        yield Figure(
            f"{words}, {large:,} against {small:,}",
            statistics.median(times[1]),
            statistics.median(times[0]),
            "ms",
            "<= 2",
            against=f"our own, {small:,} entities",
        )


def applied(graph: Graph, text: str, **options: Any) -> None:
    assert graph.schema.apply(text, allow_data_loss=True, **options).applied


def undo(graph: Graph) -> None:
    """Back to the first schema; a dropped property comes back empty."""
    text = SCHEMA
    if "memo" in {p.name for p in graph.snapshot().catalog.nodes[0].properties}:
        text = SCHEMA.replace("note: String?", 'note: String? @rename_from("memo")')
    graph.schema.apply(text, allow_data_loss=True)


def checks(graph: Graph, large: int) -> tuple[list[Figure], list[str]]:
    text = SCHEMA.replace("code: I64?", "code: I64 @unique")
    dataset = graph.engine.store.open(graph.snapshot().pin(node_table("Item")).at)

    def bare() -> None:
        with duckdb.connect(":memory:") as database:
            database.register("t", dataset.scanner(columns=["code"]).to_reader())
            twice = "SELECT code FROM t GROUP BY code HAVING count(*) > 1"
            assert database.sql(f"SELECT count(*) FROM ({twice})").fetchall() == [(0,)]
            database.register("u", dataset.scanner(columns=["code"]).to_reader())
            assert database.sql("SELECT count(*) FROM u WHERE code IS NULL").fetchall() == [(0,)]

    theirs = min(milliseconds(bare) for _ in range(3))
    times = []
    with _memory() as memory:
        for _ in range(3):
            times.append(milliseconds(lambda: applied(graph, text)))
            applied(graph, SCHEMA)
    figure = Figure(
        f"add @unique and require a property of {large:,}",
        min(times),
        theirs,
        "ms",
        "<= 2",
        against="DuckDB, the same checks of the bare column",
    )
    grown = (memory[-1] - memory[0]) / 2**30
    return [figure], [f"the checks took at most {grown:.2f} GiB on top of {memory[0] / 2**30:.2f}"]


def rewrites(graph: Graph, large: int) -> Iterator[Figure]:
    wide = SCHEMA.replace("size: I32?", "size: I64?")
    yield _rewrite(graph, large, "cast a property", wide, {}, "cast(size as bigint)")
    filled = SCHEMA.replace("note: String?", "note: String?  full: I64")
    again = {"Item.full": "coalesce(code, 0) + 1"}
    yield _rewrite(graph, large, "backfill a property", filled, again, "coalesce(code, 0) + 1")


def _rewrite(
    graph: Graph, large: int, words: str, text: str, backfill: dict[str, str], sql: str
) -> Figure:
    dataset = graph.engine.store.open(graph.snapshot().pin(node_table("Item")).at)

    def bare() -> None:
        for fragment in dataset.get_fragments():
            fragment.merge_columns({"__bench": sql})

    theirs = min(milliseconds(bare) for _ in range(3))
    times = []
    for _ in range(3):
        times.append(milliseconds(lambda: applied(graph, text, backfill=backfill)))
        applied(graph, SCHEMA)
    return Figure(
        f"{words} of {large:,}",
        min(times),
        theirs,
        "ms",
        "<= 2",
        against="Lance, merge_columns alone",
    )


def neighbours(graph: Graph, large: int) -> list[Figure]:
    """Inserts into another type, alone and beside a backfill."""
    first: list[float] = []
    alone = _inserts(graph, lambda: len(first) >= 40, first)
    text = SCHEMA.replace("note: String?", "note: String?  full: String")
    beside_times: list[float] = []
    with _in_background(lambda: applied(graph, text, backfill={"Item.full": "name"})) as done:
        beside = _inserts(graph, done.is_set, beside_times)
    applied(graph, SCHEMA)
    return [
        Figure(
            f"insert into another type beside a backfill of {large:,}",
            beside,
            alone,
            "ms",
            "<= 1.5",
            against="our own, the same insert alone",
        )
    ]


def _inserts(graph: Graph, stop: Callable[[], bool], times: list[float]) -> float:
    while not stop() or len(times) < 5:
        number = time.monotonic_ns()
        times.append(
            milliseconds(lambda n=number: graph.apply({"Other": {"insert": [{"text": str(n)}]}}))
        )
    return statistics.median(times)


@contextmanager
def _memory() -> Iterator[list[float]]:
    """The bytes of this process before, and the most while it runs."""
    found = [tree(os.getpid())[1]]
    done = threading.Event()

    def watch() -> None:
        most = found[0]
        while not done.wait(0.05):
            most = max(most, tree(os.getpid())[1])
        found.append(most)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()


@contextmanager
def _in_background(action: Callable[[], None]) -> Iterator[threading.Event]:
    done, failure = threading.Event(), list[BaseException]()

    def work() -> None:
        try:
            action()
        except BaseException as error:  # noqa: BLE001 - raised below
            failure.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield done
    finally:
        thread.join()
    if failure:
        raise failure[0]

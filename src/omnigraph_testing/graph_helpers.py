"""Helpers on an open graph: its export, other engine parts, a rival writer, indexes in one call."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import TYPE_CHECKING, Any

from omnigraph import failpoints
from omnigraph.commit.intents import Resources, branch_resource
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.lance_store.staging.index_builds import build_indexes, plan_indexes, stage_indexes
from omnigraph.lance_store.staging.stage import StagedWrite
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.values.indexes import IndexSpec

if TYPE_CHECKING:
    import pytest  # children that run workloads do not need it

_QUEUE_SECONDS = 60


def with_parts(graph: Graph, **parts: Any) -> Graph:
    """The same graph, open for writing, with these parts of its engine replaced."""
    engine = copy(graph.engine)
    engine.__dict__.update(parts)
    return Graph(engine, graph.actor, read_only=False)


def exported(graph: Graph, branch: str = "main", **options: Any) -> str:
    """The NDJSON export of a branch as text."""
    sink = io.BytesIO()
    graph.export(sink, branch, **options)
    return sink.getvalue().decode()


def rival_of(graph: Graph) -> Graph:
    """A writer as on another host: it shares the storage, but not the queue of this host."""
    rival = open_graph(graph.uri, actor="rival", settings=graph.engine.settings)
    rival.engine.transaction._processes._root = None  # noqa: SLF001 - only tests need it
    return rival


def meanwhile(monkeypatch: pytest.MonkeyPatch, point: str, action: Callable[[], object]) -> None:
    """Run `action` once, in another thread, when a writer passes the failpoint `point`.

    An error of `action` is raised in the writer, because a rival that failed proves nothing.
    """
    original, done = failpoints.hit, threading.Event()

    def hit(name: str) -> None:
        original(name)
        if name != point or done.is_set():
            return
        done.set()
        alone = ThreadPoolExecutor(1)
        try:
            alone.submit(action).result(timeout=60)  # more time means a deadlock
        finally:
            alone.shutdown(wait=False)

    monkeypatch.setattr(failpoints, "hit", hit)


def together(
    graph: Graph, *writes: Callable[[], Any], branch: str = "main"
) -> list[Any | BaseException]:
    """Run writes in threads that queue in this order; what each returned or raised.

    The queue is held until all of them wait, so the first of them leads a group.
    """
    transaction = graph.engine.transaction
    queue = transaction._threads  # noqa: SLF001 - only tests need it
    ref = graph.engine.reader.ref(branch)
    outcomes: list[Any | BaseException] = [None] * len(writes)

    def run(number: int) -> None:
        try:
            outcomes[number] = writes[number]()
        except BaseException as error:  # noqa: BLE001 - the test judges it
            outcomes[number] = error

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(writes))]
    with queue.turn(Resources(exclusive=frozenset({branch_resource(ref)}))):
        for number, thread in enumerate(threads):
            thread.start()
            until = time.monotonic() + _QUEUE_SECONDS
            while queue.waiting() <= number:
                assert time.monotonic() < until, f"write {number} did not queue"
                time.sleep(0.0005)
    for thread in threads:
        thread.join(_QUEUE_SECONDS)
        assert not thread.is_alive(), "a write hangs"
    return outcomes


def staged_indexes(
    store: Store, at: DatasetVersion, specs: Sequence[IndexSpec]
) -> StagedWrite | None:
    return stage_indexes(store, at, build_indexes(store, at, plan_indexes(store, at, specs)))

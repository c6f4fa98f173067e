"""Helpers on an open graph: its export, other engine parts, a rival writer, indexes in one call."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import TYPE_CHECKING, Any

from omnigraph import failpoints
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.lance_store.staging.index_builds import build_indexes, plan_indexes, stage_indexes
from omnigraph.lance_store.staging.stage import StagedWrite
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.values.indexes import IndexSpec

if TYPE_CHECKING:
    import pytest  # children that run workloads do not need it


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


def staged_indexes(
    store: Store, at: DatasetVersion, specs: Sequence[IndexSpec]
) -> StagedWrite | None:
    return stage_indexes(store, at, build_indexes(store, at, plan_indexes(store, at, specs)))

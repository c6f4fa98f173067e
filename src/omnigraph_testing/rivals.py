"""Others who write at the worst moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph import failpoints
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph


def rival_of(graph: Graph) -> Graph:
    """As a process on another host: nothing is shared but the storage, no queue either."""
    rival = open_graph(graph.uri, actor="rival", settings=graph.engine.settings)
    rival.engine.transaction._processes._root = None  # noqa: SLF001 - no API wants it
    return rival


def meanwhile(monkeypatch: pytest.MonkeyPatch, point: str, action: Callable[[], object]) -> None:
    """Run `action` once, in a thread of its own, when a writer passes `point`.

    What it raises is raised there: a rival that failed has proved nothing.
    """
    original, done = failpoints.hit, threading.Event()

    def hit(name: str) -> None:
        original(name)
        if name != point or done.is_set():
            return
        done.set()
        alone = ThreadPoolExecutor(1)
        try:
            alone.submit(action).result(timeout=60)  # longer is a deadlock
        finally:
            alone.shutdown(wait=False)

    monkeypatch.setattr(failpoints, "hit", hit)

"""Mutations that crash and race, runnable in child processes."""

from __future__ import annotations

import time
from pathlib import Path

from omnigraph.errors import OmnigraphError
from omnigraph.graph.open import open_graph
from omnigraph_testing.crash import Report
from omnigraph_testing.workloads import settings

_WAIT = 120.0


def mutate_once(report: Report, uri: str, source: str) -> None:
    graph = open_graph(uri, actor="victim", settings=settings())
    report(graph.mutate(source, message="once").to_dict())


def mutate_in_step(report: Report, uri: str, sources: list[str], gates: str) -> None:
    """Each source when the file `<gates>/<its number>` appears, as others do; then the outcome."""
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
    until = time.monotonic() + _WAIT
    while not gate.exists():
        assert time.monotonic() < until, f"{gate} never came"
        time.sleep(0.0005)

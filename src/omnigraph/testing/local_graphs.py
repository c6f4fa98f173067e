"""The local executor for the conformance suite: real graphs, each written once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.testing.executor_suite import Answer
from omnigraph.testing.graph_data import GraphData


class LocalGraphs:
    """Runs queries on graphs under a folder; equal data is one graph."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[GraphData, Graph] = {}

    def run(self, graph: GraphData, source: str, parameters: Mapping[str, Any]) -> Answer:
        """A `Run` of the suite."""
        if graph not in self._open:
            opened = init(self._folder / f"{len(self._open)}.omni", graph.schema)
            if graph.lines:
                opened.apply(graph.edits())
            self._open[graph] = opened
        result = self._open[graph].query(source, params=parameters)
        return result.columns, result.to_pylist()

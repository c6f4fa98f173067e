"""The local executor for the conformance suite: real graphs, each written once."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from omnigraph.execute.query_request import QueryText
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.ir.reads import ReadOp
from omnigraph.plan.estimates import Statistics
from omnigraph.plan.physical import PhysicalOp
from omnigraph.plan.planner import plan_read
from omnigraph_testing.executor_suite import Answer
from omnigraph_testing.graph_data import GraphData


class LocalGraphs:
    """Runs queries on graphs under a folder; equal data is one graph."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[GraphData, Graph] = {}

    def run(self, graph: GraphData, source: str, parameters: Mapping[str, Any]) -> Answer:
        """A `Run` of the suite."""
        result = self.graph(graph).query(source, params=parameters)
        return result.columns, result.to_pylist()

    def run_otherwise(
        self, rules: Collection[str], seed: int, graph: GraphData, query: tuple[str, Any]
    ) -> Answer:
        """The same without some of the planner's rules, and with counts that are not true."""
        opened, (source, parameters) = self.graph(graph), query
        chance = random.Random(seed)

        def plan(op: ReadOp, known: Statistics) -> PhysicalOp:
            counts = {key: chance.choice((0, 1, 64, 2**20)) for key in known.counts}
            return plan_read(op, Statistics(known.catalog, counts), rules)

        text = QueryText(source, None, parameters)
        result = opened.engine.queries.run_planned(opened.snapshot(), text, plan)
        return result.columns, result.to_pylist()

    def graph(self, graph: GraphData) -> Graph:
        if graph not in self._open:
            self._open[graph] = self.write(graph, self._folder / f"{len(self._open)}.omni")
        return self._open[graph]

    def write(self, graph: GraphData, place: Path) -> Graph:
        opened = init(place, graph.schema)
        if graph.lines:
            opened.apply(graph.edits())
        return opened

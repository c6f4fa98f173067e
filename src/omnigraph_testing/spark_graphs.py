"""The Spark executor for the conformance suite, on the graphs of the local one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnigraph_testing.executor_suite import Answer
from omnigraph_testing.graph_data import GraphData
from omnigraph_testing.local_graphs import LocalGraphs


class SparkGraphs(LocalGraphs):
    """Runs queries with `engine="spark"`; a session must be up."""

    def run(self, graph: GraphData, source: str, parameters: Mapping[str, Any]) -> Answer:
        result = self.graph(graph).query(source, params=parameters, engine="spark")
        return result.columns, result.to_pylist()

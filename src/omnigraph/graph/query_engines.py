"""The engines a query may run on: one door each, the same answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from omnigraph.execute.query_request import QueryBounds, QueryText
from omnigraph.graph.engine import Engine
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.known_names import LOCAL, require_engine

if TYPE_CHECKING:
    from omnigraph.execute.result import QueryResult


class QueryEngine(Protocol):
    """Answers queries on a snapshot."""

    def run(self, snapshot: Snapshot, text: QueryText, bounds: QueryBounds) -> QueryResult: ...


def query_engine(engine: Engine, name: str) -> QueryEngine:
    require_engine(name, "query")
    return engine.queries if name == LOCAL else engine.spark_queries

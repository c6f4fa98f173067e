"""An open graph with one of its parts exchanged."""

from __future__ import annotations

from copy import copy
from typing import Any

from omnigraph.graph.handle import Graph


def with_parts(graph: Graph, **parts: Any) -> Graph:
    """The same graph for writing; the parts of its engine that are named are these."""
    engine = copy(graph.engine)
    engine.__dict__.update(parts)
    return Graph(engine, graph.actor, read_only=False)

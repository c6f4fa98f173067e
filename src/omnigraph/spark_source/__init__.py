"""Spark users' door: the format `omnigraph`, `GraphReader`, `GraphWriter`, `typed_errors`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph.spark_source.failures import typed_errors
    from omnigraph.spark_source.graph_frames import GraphReader, GraphWriter

# Resolved on first use: executors import this package with every task, and need none of them.
_PUBLIC = {
    "GraphReader": "omnigraph.spark_source.graph_frames",
    "GraphWriter": "omnigraph.spark_source.graph_frames",
    "typed_errors": "omnigraph.spark_source.failures",
}

__all__ = ["GraphReader", "GraphWriter", "typed_errors"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'omnigraph.spark_source' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)

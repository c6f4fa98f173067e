"""What Spark users import: `GraphReader`, `GraphWriter`, `pipelines`, `spark_session` and more."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph.spark import pipelines
    from omnigraph.spark.failures import typed_errors
    from omnigraph.spark.jvm import columnar_jar
    from omnigraph.spark.session import spark_session, stop_session
    from omnigraph.spark.source.graph_frames import GraphReader, GraphWriter

# Each name is imported when it is used first, because Spark executors import this package for
# every task and need none of the names.
_PUBLIC = {
    "GraphReader": "omnigraph.spark.source.graph_frames",
    "GraphWriter": "omnigraph.spark.source.graph_frames",
    "columnar_jar": "omnigraph.spark.jvm",
    "spark_session": "omnigraph.spark.session",
    "stop_session": "omnigraph.spark.session",
    "typed_errors": "omnigraph.spark.failures",
}

__all__ = [
    "GraphReader",
    "GraphWriter",
    "columnar_jar",
    "pipelines",
    "spark_session",
    "stop_session",
    "typed_errors",
]


def __getattr__(name: str) -> Any:
    if name == "pipelines":
        return import_module("omnigraph.spark.pipelines")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'omnigraph.spark' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)

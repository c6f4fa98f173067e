"""Spark looks for installed packages called `pyspark_*` and takes their `DefaultSource`."""

from omnigraph.spark.source.source import OmnigraphSource as DefaultSource

__all__ = ["DefaultSource"]

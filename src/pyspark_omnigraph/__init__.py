"""Registers the format `omnigraph`: Spark takes `DefaultSource` of packages named `pyspark_*`."""

from omnigraph.spark.source.source import OmnigraphSource as DefaultSource

__all__ = ["DefaultSource"]

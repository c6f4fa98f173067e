"""Who does the work of a load, a query or upkeep: this process or Spark."""

from __future__ import annotations

LOCAL, SPARK, AUTO = "local", "spark", "auto"

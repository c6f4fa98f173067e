"""Spark sessions for queries: the caller's Spark, with the settings that queries rely on.

The caller's own session keeps its settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# Answers depend on these: errors instead of NULL or wrapped integers, UTC, exact names.
_MEANING = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}
# One task, no shuffle, no generated code: a small query takes milliseconds.
_SMALL = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.codegen.wholeStage": "false",
}
# Spark estimates the output of a Python worker as tiny. So it may broadcast a table only after it
# has measured its size.
_LARGE = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "32m",
    # A join whose one side fits in memory by partitions sorts neither side.
    "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": "64m",
}


@dataclass(frozen=True, slots=True)
class QuerySession:
    """A session for queries, and the caller's session that it was made from."""

    session: Any
    parent: Any

    def frame(self, data: Any, schema: Any) -> Any:
        """A DataFrame of local data.

        pyspark makes the session active that creates it; the caller's is made active again.
        """
        try:
            return self.session.createDataFrame(data, schema)
        finally:
            kind = type(self.parent)
            if hasattr(kind, "_activeSession"):
                kind._activeSession = self.parent  # noqa: SLF001 - pyspark has no public setter


class QuerySessions:
    """One session for small queries and one for large ones, for the Spark that is used last."""

    def __init__(self) -> None:
        self._spark: Any = None
        self._made: dict[bool, Any] = {}

    def of(self, parent: Any, *, small: bool) -> QuerySession:
        spark = _identity(parent)
        if self._spark != spark:
            self._spark, self._made = spark, {}
        found = self._made.get(small)
        if found is None:
            found = self._made[small] = _configured(parent.newSession(), small=small)
        return QuerySession(found, parent)


def _identity(session: Any) -> Any:
    """What identifies the Spark of a session. Session objects do not: pyspark makes new ones."""
    context = getattr(session, "_sc", None)
    return context if context is not None else session.session_id


def _configured(session: Any, *, small: bool) -> Any:
    for name, value in {**_MEANING, **(_SMALL if small else _LARGE)}.items():
        session.conf.set(name, value)
    return session

"""Sessions of our own beside the caller's: same Spark, settings that queries rely on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# What the answers depend on: errors instead of NULL or wrapped integers, UTC, exact names.
_MEANING = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}
# One task, no shuffle, nothing compiled: what little data there is takes milliseconds.
_SMALL = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.codegen.wholeStage": "false",
}
# Spark takes what a worker reads for tiny, whatever it is: only sizes it has seen may broadcast.
_LARGE = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "32m",
}


@dataclass(frozen=True, slots=True)
class QuerySession:
    """A session of ours, and the one it stands beside."""

    session: Any
    beside: Any

    def frame(self, data: Any, schema: Any) -> Any:
        """A DataFrame of local data. pyspark makes its session the active one: not for long."""
        try:
            return self.session.createDataFrame(data, schema)
        finally:
            kind = type(self.beside)
            if hasattr(kind, "_activeSession"):
                kind._activeSession = self.beside  # noqa: SLF001 - there is no public way back


class QuerySessions:
    """One session for small queries and one for large ones, per Spark that the process uses."""

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
    """Of the Spark behind a session: pyspark makes a new object each time one is asked for."""
    context = getattr(session, "_sc", None)
    return context if context is not None else session.session_id


def _configured(session: Any, *, small: bool) -> Any:
    for name, value in {**_MEANING, **(_SMALL if small else _LARGE)}.items():
        session.conf.set(name, value)
    return session

"""Queries with `engine="spark"`: compiled as always, refused where Spark has no answer, then run.

This module does not import pyspark. A query that is refused needs no Spark at all, and without
pyspark `spark_session` says what to install.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from omnigraph.errors import EngineCannot
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.limits import QueryLimits
from omnigraph.execute.query_runner import compile_read, statistics_of
from omnigraph.execute.query_types import LateRows, QueryResult
from omnigraph.ir import reads
from omnigraph.ir.walk import walk
from omnigraph.lance_store.store import Store
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.settings.models import Settings
from omnigraph.spark.session import spark_session
from omnigraph.values.clock import Clock
from omnigraph.values.query_request import QueryBounds, QueryText

GAPS: dict[str, str] = {
    "nearest": "vectors are ranked by the indexes of one machine",
    "bm25": "text is ranked by the indexes of one machine",
    "rrf": "it fuses rankings, which one machine makes",
}
"""What only the local engine can do, and why."""


class NotYetRun:
    """Rows of a query that Spark runs when the first of them is read, and once.

    So `to_spark` can hand out the DataFrame of the query before any row was brought here.
    """

    def __init__(
        self,
        names: list[str],
        answer: Callable[[], LateRows],
        make_frame: Callable[[], Any],
    ) -> None:
        self.names = names
        self._answer = answer
        self._make_frame = make_frame
        self._lock = threading.Lock()
        self._rows: LateRows | None = None

    @property
    def is_ready(self) -> bool:
        return self._rows is not None

    @property
    def length(self) -> int:
        return self._read().length

    def values(self, start: int, end: int) -> pa.RecordBatch:
        return self._read().values(start, end)

    def frame(self) -> Any:
        """The `DataFrame` of the query; Spark runs it when the caller reads the frame."""
        return self._make_frame()

    def _read(self) -> LateRows:
        with self._lock:
            if self._rows is None:
                self._rows = self._answer()
            return self._rows


class SparkQueryRunner:
    """Compiles a query, refuses what Spark cannot do, and prepares the rest for Spark."""

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock

    def run(self, snapshot: Snapshot, text: QueryText, bounds: QueryBounds) -> QueryResult:
        compiled = compile_read(snapshot, text)
        plan = compiled.plan
        assert plan is not None
        parameters = compiled.bind(text.params)
        refuse_gaps(plan)
        session = spark_session(self._settings.pipeline)

        from omnigraph.spark.query.executor import SparkExecutor, SparkRun

        now = self._clock.now_micros() // 1000
        executor = SparkExecutor(self._store, session, self._settings.read)
        statistics = statistics_of(snapshot)

        def run() -> SparkRun:
            return SparkRun(snapshot, Evaluator(parameters, now), now, self._limits(bounds))

        rows = NotYetRun(
            names=[column.name for column in compiled.operation.fields],
            answer=lambda: executor.answer(plan, statistics, run()),
            make_frame=lambda: executor.frame(plan, statistics, run()),
        )
        return QueryResult(
            compiled.name, snapshot.graph_branch, snapshot.graph_commit_id, rows, text.at
        )

    def _limits(self, bounds: QueryBounds) -> QueryLimits:
        read = self._settings.read
        seconds = bounds.timeout if bounds.timeout is not None else read.timeout_seconds
        deadline = None if seconds is None else self._clock.monotonic() + seconds
        return QueryLimits(read.memory_bytes, deadline, bounds.cancel, self._clock)


def refuse_gaps(plan: reads.ReadOp) -> None:
    """Raise `EngineCannot` for the first operator that only the local engine has."""
    for op in walk(plan):
        match op:
            case reads.Search(function=name):
                raise EngineCannot.of("spark", f"{name}()", GAPS[name])
            case reads.Fuse():
                raise EngineCannot.of("spark", "rrf()", GAPS["rrf"])
            case _:
                continue

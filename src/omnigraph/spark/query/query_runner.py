"""Queries on Spark; pyspark is imported when the first one comes."""

from __future__ import annotations

from importlib import import_module

from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.limits import QueryLimits
from omnigraph.execute.query_request import QueryBounds, QueryText
from omnigraph.execute.query_runner import compile_read, statistics_of
from omnigraph.execute.result import QueryResult
from omnigraph.lance_store.store import Store
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.settings.models import Settings
from omnigraph.spark.query.finished_rows import FinishedRows
from omnigraph.spark.query.gaps import refuse_gaps
from omnigraph.spark.session import spark_session
from omnigraph.values.clock import Clock


class SparkQueryRunner:
    """Compiles, refuses what Spark does not have, and runs the rest there."""

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
        spark = import_module("omnigraph.spark.query.spark_executor")
        now = self._clock.now_micros() // 1000
        run = spark.SparkRun(snapshot, Evaluator(parameters, now), now, self._limits(bounds))
        executor = spark.SparkExecutor(self._store, session, self._settings.read)
        rows = FinishedRows(executor.table(plan, statistics_of(snapshot), run))
        place = (snapshot.graph_branch, snapshot.graph_commit_id)
        return QueryResult(compiled.name, *place, rows, text.at)

    def _limits(self, bounds: QueryBounds) -> QueryLimits:
        read = self._settings.read
        seconds = bounds.timeout if bounds.timeout is not None else read.timeout_seconds
        deadline = None if seconds is None else self._clock.monotonic() + seconds
        return QueryLimits(read.memory_bytes, deadline, bounds.cancel, self._clock)

"""Queries with `engine="spark"`: compiled as always, refused where Spark has no answer, then run.

This module does not import pyspark. A query that is refused needs no Spark at all, and without
pyspark `spark_session` says what to install.
"""

from __future__ import annotations

from omnigraph.errors import EngineCannot
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.limits import QueryLimits
from omnigraph.execute.query_runner import compile_read, statistics_of
from omnigraph.execute.query_types import QueryBounds, QueryResult, QueryText
from omnigraph.ir import reads
from omnigraph.ir.walk import walk
from omnigraph.lance_store.store import Store
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.settings.models import Settings
from omnigraph.spark.session import spark_session
from omnigraph.values.clock import Clock

GAPS: dict[str, str] = {
    "nearest": "vectors are ranked by the indexes of one machine",
    "bm25": "text is ranked by the indexes of one machine",
    "rrf": "it fuses rankings, which one machine makes",
}
"""What only the local engine can do, and why."""


class SparkQueryRunner:
    """Compiles a query, refuses what Spark cannot do, and runs the rest on Spark."""

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
        run = SparkRun(snapshot, Evaluator(parameters, now), now, self._limits(bounds))
        executor = SparkExecutor(self._store, session, self._settings.read)
        rows = executor.answer(plan, statistics_of(snapshot), run)
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

"""Run read plans on Spark: the other executor of the same queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph.errors import SparkFailed
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.limits import QueryLimits
from omnigraph.ir import reads
from omnigraph.ir.walk import walk
from omnigraph.lance_store.store import Store
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.plan.estimates import Statistics
from omnigraph.plan.planner import RULES, plan_read
from omnigraph.settings.models import ReadSettings
from omnigraph.spark.jobs import run_job
from omnigraph.spark.query.answer import answer_at_once, answer_in_batches
from omnigraph.spark.query.compilation import Compilation
from omnigraph.spark.query.expressions import Expressions
from omnigraph.spark.query.failures import query_error
from omnigraph.spark.query.graph_tables import GraphTables
from omnigraph.spark.query.needed_columns import needed_columns
from omnigraph.spark.query.operators import compile_plan
from omnigraph.spark.query.sessions import QuerySessions
from omnigraph.values.identifiers import TableKey, edge_table, node_table

# Rules that pay on Spark too; the others are about what one machine holds in memory.
_RULES = frozenset(
    {
        "push_filters",
        "choose_order",
        "filter_in_scan",
        "filter_in_expand",
        "count_instead_of_follow",
        "distinct_early",
    }
)
_LEFT_OUT = frozenset(rule.name for rule in RULES) - _RULES

# With fewer rows than this in all its tables a query runs in one task.
SMALL_ROWS = 20_000

_sessions = QuerySessions()


@dataclass(frozen=True, slots=True)
class SparkRun:
    """One run of one query: what it may use, and what its expressions need."""

    snapshot: Snapshot
    evaluator: Evaluator
    now_millis: int
    limits: QueryLimits


@dataclass(frozen=True, slots=True)
class SparkExecutor:
    """Runs plans on one graph in one Spark session."""

    store: Store
    session: Any
    settings: ReadSettings

    def table(self, plan: reads.ReadOp, statistics: Statistics, run: SparkRun) -> pa.Table:
        """All rows in order. A limit crossed, or a cancel, ends the Spark jobs of this query."""
        run.limits.check()
        planned = plan_read(plan, statistics, _LEFT_OUT)

        def action() -> pa.Table:
            # In the thread of the job: making a session makes it the active one of its thread.
            compilation = self._compilation(plan, run)
            try:
                rows = compile_plan(planned, compilation)
                if compilation.tables.in_one_task:
                    return answer_at_once(rows)
                return answer_in_batches(
                    rows, self.settings.spill_directory, self.settings.spill_bytes
                )
            finally:
                compilation.release()

        try:
            return run_job(self.session, "query", action, lambda done, total: run.limits.check())
        except SparkFailed as failed:
            raise query_error(failed) from failed

    def _compilation(self, plan: reads.ReadOp, run: SparkRun) -> Compilation:
        snapshot = run.snapshot
        rows = sum(snapshot.pin(key).row_count for key in set(_tables_in(plan)))
        small = rows <= SMALL_ROWS
        session = _sessions.of(self.session, small=small)
        needed = needed_columns(plan, snapshot.catalog)
        tables = GraphTables(self.store, snapshot, session, needed, small)
        return Compilation(tables, Expressions(run.evaluator, snapshot.catalog, run.now_millis))


def _tables_in(plan: reads.ReadOp) -> Iterator[TableKey]:
    for op in walk(plan):
        match op:
            case reads.NodeScan(_, variable):
                yield from map(node_table, variable.types)
            case reads.Expand():
                yield from map(node_table, op.target.types)
                yield from (edge_table(step.edge) for step in op.steps)
            case _:
                continue

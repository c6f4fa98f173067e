"""Run a read plan as Spark jobs: the second executor of the same queries."""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from omnigraph import errors
from omnigraph.errors import InvalidArgument, OmnigraphError, SparkFailed
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
from omnigraph.spark.query.answers import (
    SparkAnswer,
    answer_at_once,
    answer_frame,
    answer_in_batches,
)
from omnigraph.spark.query.expressions import Expressions
from omnigraph.spark.query.graph_tables import Compilation, GraphTables
from omnigraph.spark.query.hashed_keys import hashes_tell_apart
from omnigraph.spark.query.operators import compile_plan
from omnigraph.spark.query.rows import Frame, needed_columns, reads_names
from omnigraph.spark.query.sessions import QuerySessions
from omnigraph.values.identifiers import EntityKind, TableKey, edge_table, node_table

# Rules that help on Spark too. The others are about what one machine holds in memory.
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

# A query whose tables have at most this many rows in total runs in one task.
SMALL_ROWS = 20_000
# An answer of at most this many rows is read at once.
SHORT_ANSWER = 1_000

_sessions = QuerySessions()


@dataclass(frozen=True, slots=True)
class SparkRun:
    """One run of one query: its snapshot, its parameters, its moment, its limits."""

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

    def answer(self, plan: reads.ReadOp, statistics: Statistics, run: SparkRun) -> SparkAnswer:
        """All rows in order. A crossed limit or a cancel ends the Spark jobs of this query."""
        run.limits.check()
        planned = plan_read(plan, statistics, _LEFT_OUT)

        def action() -> SparkAnswer:
            # The session is made in the job's thread, because pyspark makes a new session the
            # active one of the thread that made it.
            compilation = self._compilation(plan, run)
            try:
                rows = compile_plan(planned, compilation)
                few = rows.at_most is not None and rows.at_most <= SHORT_ANSWER
                if few or compilation.tables.in_one_task:
                    return answer_at_once(rows, self.settings.spill_bytes)
                return answer_in_batches(
                    rows, self.settings.spill_directory, self.settings.spill_bytes
                )
            finally:
                compilation.release()

        try:
            return run_job(self.session, "query", action, lambda done, total: run.limits.check())
        except SparkFailed as failed:
            raise query_error(failed) from failed

    def frame(self, plan: reads.ReadOp, statistics: Statistics, run: SparkRun) -> Frame:
        """The rows as a `DataFrame` that Spark computes when the caller reads it.

        Compiling a long path may run jobs already; limits and a cancel hold for these.
        """
        run.limits.check()
        planned = plan_read(plan, statistics, _LEFT_OUT)

        def action() -> Frame:
            compilation = self._compilation(plan, run)
            try:
                found = answer_frame(compile_plan(planned, compilation))
            except BaseException:
                compilation.release()
                raise
            # Persisted rows are needed as long as the caller can read the frame.
            weakref.finalize(found, compilation.release)
            return found

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
        hashed = not small and not reads_names(plan) and self._can_hash(plan, snapshot)
        tables = GraphTables(self.store, snapshot, session, needed, small, hashed)
        return Compilation(tables, Expressions(run.evaluator, snapshot.catalog, run.now_millis))

    def _can_hash(self, plan: reads.ReadOp, snapshot: Snapshot) -> bool:
        nodes = {key for key in _tables_in(plan) if key.kind is EntityKind.NODE}
        for key in set(_tables_in(plan)) - nodes:
            edge = snapshot.catalog.edge_types[key.type_name]
            nodes |= {node_table(edge.source), node_table(edge.target)}
        pins = [snapshot.pin(key) for key in sorted(nodes, key=str)]
        return hashes_tell_apart(self.store, pins, self.settings.spill_directory)


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


# Error conditions of Spark that mean: an expression of this query has no value.
_VALUE_ERRORS = re.compile(
    r"\[(DIVIDE_BY_ZERO|REMAINDER_BY_ZERO|ARITHMETIC_OVERFLOW|BINARY_ARITHMETIC_OVERFLOW|"
    r"CAST_OVERFLOW|CAST_INVALID_INPUT|NUMERIC_VALUE_OUT_OF_RANGE[.\w]*|DATETIME_OVERFLOW|"
    r"USER_RAISED_EXCEPTION)\]\s*([^\n]*)"
)
_OWN_ERROR = re.compile(r"omnigraph\.errors\.(\w+): ([^\n]*)")


def query_error(failed: SparkFailed) -> OmnigraphError:
    """The error that the local engine would raise, where Spark's error carries one."""
    text = f"{failed.__cause__}"
    own = _OWN_ERROR.search(text)
    if own is not None:
        kind = getattr(errors, own.group(1), None)
        if isinstance(kind, type) and issubclass(kind, OmnigraphError):
            return kind(own.group(2))
    value = _VALUE_ERRORS.search(text)
    if value is not None:
        return InvalidArgument(_readable(value.group(1), value.group(2)))
    return failed


def _readable(condition: str, message: str) -> str:
    if condition in ("DIVIDE_BY_ZERO", "REMAINDER_BY_ZERO"):
        return "division by zero"
    said, _, _ = message.partition(" SQLSTATE")
    return said if condition == "USER_RAISED_EXCEPTION" else f"a number is out of range: {said}"

"""Run, explain and profile queries of the language on a snapshot."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph.embed.provider import EmbeddingProvider
from omnigraph.errors import InvalidArgument
from omnigraph.execute.limits import QueryLimits
from omnigraph.execute.local.cold_scan import ColdReads
from omnigraph.execute.local.expressions import Evaluator
from omnigraph.execute.local.local_executor import LocalExecutor, Step
from omnigraph.execute.local.spill import SpillSpace
from omnigraph.execute.local.views import SnapshotViews, ViewCache
from omnigraph.execute.result import QueryResult
from omnigraph.ir.reads import ReadOp
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.plan.physical import PhysicalOp
from omnigraph.plan.plan_text import explained, plan_lines
from omnigraph.plan.planner import plan_read
from omnigraph.plan.statistics import Statistics, rounded
from omnigraph.query.compiler import CompiledQuery, compile_query
from omnigraph.settings.models import ReadSettings
from omnigraph.values.clock import Clock

_PLANS = 1024


@dataclass(frozen=True, slots=True)
class QueryText:
    """Which query of which text, with its parameters."""

    source: str
    name: str | None = None
    params: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class QueryBounds:
    """How long one run may take, and who may call it off."""

    timeout: float | None = None
    cancel: threading.Event | None = None


@dataclass(frozen=True, slots=True)
class _Latest:
    """What was last found about the tables of a head."""

    tables: object
    views: SnapshotViews
    statistics: Statistics


@dataclass(frozen=True, slots=True)
class _Planned:
    """A plan, with what its key is the identity of: held, so that no other object gets it."""

    compiled: CompiledQuery
    statistics: Statistics
    plan: PhysicalOp


class QueryRunner:
    """Compiles (cached), plans (cached), binds and executes."""

    def __init__(
        self,
        cache: ViewCache,
        settings: ReadSettings,
        provider: EmbeddingProvider,
        clock: Clock,
    ) -> None:
        self._cache = cache
        self._provider = provider
        self._cold_reads = ColdReads()
        self._space = SpillSpace(
            settings.spill_directory, settings.spill_bytes, settings.memory_bytes
        )
        self._settings = settings
        self._clock = clock
        self._plans: OrderedDict[tuple[int, int], _Planned] = OrderedDict()
        self._latest: _Latest | None = None

    @property
    def memory_bytes(self) -> int:
        """What is kept in memory between queries."""
        return self._cache.memory.used_bytes

    def run(self, snapshot: Snapshot, text: QueryText, bounds: QueryBounds) -> QueryResult:
        compiled = _compile(snapshot, text)
        executor = self._executor(snapshot, compiled.bind(text.params), bounds, None)
        rows = executor.answer(self._planned(compiled, snapshot))
        return QueryResult(compiled.name, snapshot.graph_branch, snapshot.graph_commit_id, rows)

    def run_planned(
        self, snapshot: Snapshot, text: QueryText, plan: Callable[[ReadOp, Statistics], PhysicalOp]
    ) -> QueryResult:
        """The answer by a plan made otherwise; whatever the planner does, it is the same one."""
        compiled = _compile(snapshot, text)
        assert compiled.plan is not None
        planned = plan(compiled.plan, self._at(snapshot).statistics)
        table = self._executor(snapshot, compiled.bind(text.params), QueryBounds(), None).table(
            planned
        )
        return QueryResult(compiled.name, snapshot.graph_branch, snapshot.graph_commit_id, table)

    def read(self, snapshot: Snapshot, plan: ReadOp, parameters: Mapping[str, Any]) -> pa.Table:
        """Rows of a plan that is no query of its own: the pattern of a statement."""
        executor = self._executor(snapshot, dict(parameters), QueryBounds(), None)
        return executor.table(plan_read(plan, self._at(snapshot).statistics))

    def explain(self, snapshot: Snapshot, text: QueryText) -> str:
        """The physical plan, one operator a line, in the order rows flow."""
        compiled = _compile(snapshot, text)
        return explained(self._planned(compiled, snapshot), self._at(snapshot).statistics)

    def profile(self, snapshot: Snapshot, text: QueryText, bounds: QueryBounds) -> str:
        """The plan with the rows and milliseconds of every operator."""
        compiled = _compile(snapshot, text)
        steps: dict[int, Step] = {}
        plan = self._planned(compiled, snapshot)
        self._executor(snapshot, compiled.bind(text.params), bounds, steps).table(plan)
        lines = []
        for op, line in plan_lines(plan):
            step = steps.get(id(op), Step())
            lines.append(f"{step.rows:>12,} rows {step.milliseconds:>10.2f} ms  {line}")
        return "\n".join(lines)

    def _executor(
        self,
        snapshot: Snapshot,
        parameters: dict[str, Any],
        bounds: QueryBounds,
        steps: dict[int, Step] | None,
    ) -> LocalExecutor:
        evaluator = Evaluator(parameters, self._clock.now_micros() // 1000)
        seconds = bounds.timeout if bounds.timeout is not None else self._settings.timeout_seconds
        deadline = None if seconds is None else self._clock.monotonic() + seconds
        memory = self._settings.memory_bytes
        limits = QueryLimits(memory, deadline, bounds.cancel, self._clock)
        views = self._at(snapshot).views
        return LocalExecutor(
            views, evaluator, limits, self._provider, self._cold_reads, self._space, steps
        )

    def _at(self, snapshot: Snapshot) -> _Latest:
        """Queries on one head share what they found: its tables are one object per state."""
        latest = self._latest
        if latest is None or latest.tables is not snapshot.tables:
            statistics = statistics_of(snapshot)
            if latest is not None and latest.statistics == statistics:
                statistics = latest.statistics
            views = SnapshotViews(snapshot, self._cache)
            latest = self._latest = _Latest(snapshot.tables, views, statistics)
        return latest

    def _planned(self, compiled: CompiledQuery, snapshot: Snapshot) -> PhysicalOp:
        """Compiled queries and statistics are shared objects, so their identities are the key."""
        statistics = self._at(snapshot).statistics
        key = (id(compiled), id(statistics))
        found = self._plans.get(key)
        if found is None:
            assert compiled.plan is not None
            found = _Planned(compiled, statistics, plan_read(compiled.plan, statistics))
            self._plans[key] = found
            while len(self._plans) > _PLANS:
                self._plans.popitem(last=False)
        return found.plan


def statistics_of(snapshot: Snapshot) -> Statistics:
    counts = {key: rounded(pin.row_count) for key, pin in snapshot.tables.items()}
    return Statistics(snapshot.catalog, counts)


def _compile(snapshot: Snapshot, text: QueryText) -> CompiledQuery:
    compiled = compile_query(text.source, snapshot.catalog, text.name)
    if compiled.plan is None:
        raise InvalidArgument(f"query {compiled.name!r} changes the graph: use mutate for it")
    return compiled

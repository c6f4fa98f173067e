"""Run, explain and profile queries of the language on a snapshot."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.errors import InvalidArgument
from omnigraph.execute.limits import QueryLimits
from omnigraph.execute.local.expressions import Evaluator
from omnigraph.execute.local.local_executor import LocalExecutor, Step
from omnigraph.execute.local.views import SnapshotViews, ViewCache
from omnigraph.execute.result import QueryResult
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.plan.physical import PhysicalOp
from omnigraph.plan.plan_text import plan_lines
from omnigraph.plan.planner import plan_read
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


class QueryRunner:
    """Compiles (cached), plans (cached), binds and executes."""

    def __init__(self, cache: ViewCache, settings: ReadSettings, clock: Clock) -> None:
        self._cache = cache
        self._settings = settings
        self._clock = clock
        self._plans: OrderedDict[int, tuple[CompiledQuery, PhysicalOp]] = OrderedDict()
        self._latest: tuple[object, SnapshotViews] | None = None

    def run(self, snapshot: Snapshot, text: QueryText, timeout: float | None) -> QueryResult:
        compiled = _compile(snapshot, text)
        executor = self._executor(snapshot, compiled.bind(text.params), timeout, None)
        table = executor.table(self._planned(compiled))
        return QueryResult(compiled.name, snapshot.graph_branch, snapshot.graph_commit_id, table)

    def explain(self, snapshot: Snapshot, text: QueryText) -> str:
        """The physical plan, one operator a line, in the order rows flow."""
        plan = self._planned(_compile(snapshot, text))
        return "\n".join(line for _, line in plan_lines(plan))

    def profile(self, snapshot: Snapshot, text: QueryText, timeout: float | None) -> str:
        """The plan with the rows and milliseconds of every operator."""
        compiled = _compile(snapshot, text)
        steps: dict[int, Step] = {}
        plan = self._planned(compiled)
        self._executor(snapshot, compiled.bind(text.params), timeout, steps).table(plan)
        lines = []
        for op, line in plan_lines(plan):
            step = steps.get(id(op), Step())
            lines.append(f"{step.rows:>12,} rows {step.milliseconds:>10.2f} ms  {line}")
        return "\n".join(lines)

    def _executor(
        self,
        snapshot: Snapshot,
        parameters: dict[str, Any],
        timeout: float | None,
        steps: dict[int, Step] | None,
    ) -> LocalExecutor:
        evaluator = Evaluator(parameters, self._clock.now_micros() // 1000)
        seconds = timeout if timeout is not None else self._settings.timeout_seconds
        deadline = None if seconds is None else self._clock.monotonic() + seconds
        limits = QueryLimits(self._settings.memory_bytes, deadline, clock=self._clock)
        return LocalExecutor(self._views(snapshot), evaluator, limits, steps)

    def _views(self, snapshot: Snapshot) -> SnapshotViews:
        """Queries on one head share what they found: its tables are one object per state."""
        latest = self._latest
        if latest is None or latest[0] is not snapshot.tables:
            latest = self._latest = (snapshot.tables, SnapshotViews(snapshot, self._cache))
        return latest[1]

    def _planned(self, compiled: CompiledQuery) -> PhysicalOp:
        """Compiled queries are cached objects themselves, so their identity is the key."""
        found = self._plans.get(id(compiled))
        if found is None:
            assert compiled.plan is not None
            found = self._plans[id(compiled)] = (compiled, plan_read(compiled.plan))
            while len(self._plans) > _PLANS:
                self._plans.popitem(last=False)
        return found[1]


def _compile(snapshot: Snapshot, text: QueryText) -> CompiledQuery:
    compiled = compile_query(text.source, snapshot.catalog, text.name)
    if compiled.plan is None:
        raise InvalidArgument(f"query {compiled.name!r} changes the graph: use mutate for it")
    return compiled

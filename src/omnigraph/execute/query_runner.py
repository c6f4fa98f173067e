"""Run, explain and profile a query on a snapshot.

The text is compiled (`query.compiler`), the plan is made (`plan.planner`), and each operator is
bound to the views of the snapshot (`LocalExecutor`). All three are kept for the next run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from omnigraph.catalog.model import Catalog
from omnigraph.embed.provider import EmbeddingProvider
from omnigraph.errors import InvalidArgument, ResourceLimit
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.evaluation.row_expressions import row_rules
from omnigraph.execute.kept_answers import KeptAnswers
from omnigraph.execute.limits import QueryLimits
from omnigraph.execute.operators.answer_operators import ANSWER_OPERATORS
from omnigraph.execute.operators.beyond_memory import SpillSpace
from omnigraph.execute.operators.operator_binding import Binder, QueryRun
from omnigraph.execute.operators.pattern_operators import PATTERN_OPERATORS
from omnigraph.execute.operators.point_operators import bind_point
from omnigraph.execute.query_types import LateRows, PlainRows, QueryResult
from omnigraph.execute.views.entity_view import TableView
from omnigraph.execute.views.frame import ONE_ROW, Frame
from omnigraph.execute.views.snapshot_views import SnapshotViews, ViewCache
from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.ir.reads import Project, ReadOp
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.plan.analysis import may_fail
from omnigraph.plan.estimates import Statistics, rounded
from omnigraph.plan.physical import PhysicalOp, Point
from omnigraph.plan.plan_text import OperatorMeasure, QueryPlan, explained, measured
from omnigraph.plan.planner import plan_read
from omnigraph.query.compiler import CompiledQuery, compile_by_current_names, compile_query
from omnigraph.settings.models import ReadSettings
from omnigraph.values.bounded_cache import BoundedCache
from omnigraph.values.clock import Clock
from omnigraph.values.query_request import QueryBounds, QueryText

# For fewer rows making all columns at once is cheaper than making them in parts.
_LARGE = 64 * 1024
# So few rows are made as Python values, which takes less than the calls of Arrow.
_FEW = 64
_PLANS = 1024
_PLAN_CHARACTERS = 4_000_000
"""Of the texts whose plans are kept. A plan takes some twenty times the memory of its text."""
_HEADS = 32
_WARMED = 8
_MOST_WARMINGS = 4


@dataclass(slots=True)
class _Head:
    """The executor of one state of the tables, and the queries that are bound to it."""

    tables: object
    views: SnapshotViews
    statistics: Statistics
    executor: LocalExecutor
    bound: BoundedCache[object, _Bound]
    """By text and name, because a text means the same as long as the state is the same."""
    answers: object
    """Belongs to this state in this scope alone. A rule that asks for the time is fixed in it."""
    warmings: int = 0
    """How often a newer state was made like this one, since the last query."""


@dataclass(frozen=True, slots=True)
class _Bound:
    """A query that is ready to run."""

    compiled: CompiledQuery
    current: object | None
    """The catalog whose names the text uses, which is part of the key by its identity."""
    answer: Callable[[QueryRun], pa.RecordBatch | LateRows]


@dataclass(frozen=True, slots=True)
class _Planned:
    """A plan. It holds `compiled` and `statistics`, whose identities are its key."""

    compiled: CompiledQuery
    statistics: Statistics
    plan: PhysicalOp


class QueryRunner:
    """Runs queries of one open graph."""

    def __init__(
        self,
        cache: ViewCache,
        settings: ReadSettings,
        provider: EmbeddingProvider,
        clock: Clock,
    ) -> None:
        self._cache = cache
        self._provider = provider
        self._space = SpillSpace(
            settings.spill_directory, settings.spill_bytes, settings.memory_bytes
        )
        self._settings = settings
        self._clock = clock
        self._plans: BoundedCache[tuple[int, int], _Planned] = BoundedCache(
            _PLANS, _PLAN_CHARACTERS
        )
        self._heads: BoundedCache[str | None, _Head] = BoundedCache(_HEADS)
        """The latest state by the key of its scope."""
        self._answers = KeptAnswers(settings.answer_bytes)
        cache.builds.when_cut_off = self._forget
        self._unbounded = QueryLimits(settings.memory_bytes, None, None, clock)

    @property
    def memory_bytes(self) -> int:
        """The memory that is kept between queries."""
        return self._cache.memory.used_bytes + self.kept_bytes

    def settle(self, timeout: float = 60.0) -> bool:
        """Wait for the builds beside queries; False when the timeout passed first."""
        return self._cache.builds.settle(timeout)

    @property
    def builds_beside(self) -> bool:
        """Whether something is built beside queries, or waits for it."""
        return not self._cache.builds.is_idle

    def close(self) -> None:
        """End the builds beside queries."""
        self._cache.builds.stop()

    def committed(self, branch: str, newest: Callable[[], Snapshot]) -> None:
        """After a commit, make what the last queries of the branch used, beside the next ones.

        A query that comes first does it itself. After a few commits without a query nothing is
        made, because this process writes and does not read.
        """

        def warm() -> None:
            snapshot = newest()
            for head in self._used_on(branch):
                views = head.views.at(snapshot)
                if views is not None:
                    head.warmings += 1
                    views.warm_like(head.views)

        if self._used_on(branch):
            self._cache.builds.start(("warm", branch), warm)

    def _used_on(self, branch: str) -> list[_Head]:
        """The states of a branch that the last queries used, one for each scope."""
        return [
            head
            for head in self._heads.newest(_WARMED)
            if head.views.branch == branch and head.warmings < _MOST_WARMINGS
        ]

    def _forget(self) -> None:
        self._heads.clear()
        self._cache.memory.forget()

    @property
    def kept_bytes(self) -> int:
        """The memory of the answers that are kept."""
        return self._answers.used_bytes

    def run(self, snapshot: Snapshot, text: QueryText, bounds: QueryBounds) -> QueryResult:
        head = self._at(snapshot)
        bound = self._bound(head, snapshot, text)
        compiled = bound.compiled
        key = self._answers.key(head.answers, snapshot, compiled, text)
        kept = self._answers.find(key) if key is not None else None
        if kept is not None:
            return kept
        rows = bound.answer(self._run(compiled.bind(text.params), bounds))
        if self._settings.max_rows is not None:
            require_rows(rows, self._settings.max_rows)
        result = _result(compiled, snapshot, rows, text)
        if key is not None:
            self._answers.keep(key, compiled, text, result)
        return result

    def kept(self, snapshot: Snapshot, text: QueryText) -> QueryResult | None:
        """The answer of `run`, if it is kept."""
        head = self._at(snapshot)
        compiled = self._bound(head, snapshot, text).compiled
        key = self._answers.key(head.answers, snapshot, compiled, text)
        return self._answers.find(key) if key is not None else None

    def run_planned(
        self, snapshot: Snapshot, text: QueryText, plan: Callable[[ReadOp, Statistics], PhysicalOp]
    ) -> QueryResult:
        """The answer by a given plan. Tests show with it that all plans give the same answer."""
        compiled = compile_read(snapshot, text)
        assert compiled.plan is not None
        head = self._at(snapshot)
        planned = plan(compiled.plan, head.statistics)
        rows = head.executor.answer(planned)(self._run(compiled.bind(text.params), QueryBounds()))
        return _result(compiled, snapshot, rows, text)

    def read(self, snapshot: Snapshot, plan: ReadOp, parameters: Mapping[str, Any]) -> pa.Table:
        """The rows of a plan without a query text, such as the pattern of a mutation."""
        head = self._at(snapshot)
        run = self._run(dict(parameters), QueryBounds())
        return head.executor.table(plan_read(plan, head.statistics), run)

    def explain(self, snapshot: Snapshot, text: QueryText) -> QueryPlan:
        """The physical plan."""
        compiled = compile_read(snapshot, text)
        if text.params is not None:
            compiled.bind(text.params)
        statistics = self._at(snapshot).statistics
        planned = self._planned(compiled, statistics, len(text.source))
        return explained(compiled.name, planned, statistics)

    def profile(self, snapshot: Snapshot, text: QueryText, bounds: QueryBounds) -> QueryPlan:
        """Run a query; the plan with the rows and the time of every operator."""
        compiled = compile_read(snapshot, text)
        steps: dict[int, OperatorMeasure] = {}
        head = self._at(snapshot)
        plan = self._planned(compiled, head.statistics, len(text.source))
        executor = replace(head.executor, steps=steps)
        run = self._run(compiled.bind(text.params), bounds)
        began = self._clock.monotonic()
        executor.table(plan, run)
        seconds = self._clock.monotonic() - began

        def measure_of(op: PhysicalOp) -> OperatorMeasure:
            return steps.get(id(op), OperatorMeasure())

        return measured(compiled.name, plan, head.statistics, measure_of, seconds)

    def _run(self, parameters: dict[str, Any], bounds: QueryBounds) -> QueryRun:
        evaluator = Evaluator(parameters, self._clock.now_micros() // 1000)
        seconds = bounds.timeout if bounds.timeout is not None else self._settings.timeout_seconds
        if seconds is None and bounds.cancel is None:
            return QueryRun(evaluator, self._unbounded)
        deadline = None if seconds is None else self._clock.monotonic() + seconds
        memory = self._settings.memory_bytes
        return QueryRun(evaluator, QueryLimits(memory, deadline, bounds.cancel, self._clock))

    def _at(self, snapshot: Snapshot) -> _Head:
        """Queries of one state share an executor, because a state has one `tables` object.

        A state in a scope has another one, so actors with different rules share no executor.
        """
        scope = snapshot.scope.key if snapshot.scope is not None else None
        latest = self._heads.get(scope)
        if latest is None or latest.tables is not snapshot.tables:
            statistics = statistics_of(snapshot)
            if latest is not None and latest.statistics == statistics:
                statistics = latest.statistics
            views = SnapshotViews(snapshot, self._cache, row_rules(snapshot.scope))
            executor = LocalExecutor(views, self._provider, self._space)
            bound: BoundedCache[object, _Bound] = BoundedCache(_PLANS, _PLAN_CHARACTERS)
            latest = _Head(snapshot.tables, views, statistics, executor, bound, object())
            self._heads.put(scope, latest)
        return latest

    def _bound(self, head: _Head, snapshot: Snapshot, text: QueryText) -> _Bound:
        """A text in the names of another catalog is told apart by that catalog."""
        current = text.current
        key = (text.source, text.name) if current is None else (text.source, text.name, id(current))
        bound = head.bound.get(key)
        if bound is None:
            compiled = compile_read(snapshot, text)
            length = len(text.source)
            answer = head.executor.answer(self._planned(compiled, head.statistics, length))
            bound = _Bound(compiled, current, answer)
            head.bound.put(key, bound, length)
        return bound

    def _planned(self, compiled: CompiledQuery, statistics: Statistics, length: int) -> PhysicalOp:
        """The key has identities, because compiled queries and statistics are shared objects."""
        key = (id(compiled), id(statistics))
        found = self._plans.get(key)
        if found is None:
            assert compiled.plan is not None
            found = _Planned(compiled, statistics, plan_read(compiled.plan, statistics))
            self._plans.put(key, found, length)
        return found.plan


def require_rows(rows: pa.RecordBatch | LateRows, most: int) -> None:
    """Refuse an answer with more rows than the settings allow."""
    count = rows.num_rows if isinstance(rows, pa.RecordBatch) else rows.length
    if count > most:
        raise ResourceLimit(
            f"the answer has {count:,} rows, and {most:,} are allowed; add a limit",
            limit="rows",
            rows=count,
            ceiling=most,
        )


def _result(
    compiled: CompiledQuery, snapshot: Snapshot, rows: pa.RecordBatch | LateRows, text: QueryText
) -> QueryResult:
    return QueryResult(
        compiled.name,
        snapshot.graph_branch,
        snapshot.graph_commit_id,
        rows,
        text.at,
        snapshot=snapshot,
    )


def statistics_of(snapshot: Snapshot) -> Statistics:
    counts = {key: rounded(pin.row_count) for key, pin in snapshot.tables.items()}
    return Statistics(snapshot.catalog, counts, may_be_told=not snapshot.uncounted)


def compile_read(snapshot: Snapshot, text: QueryText) -> CompiledQuery:
    if isinstance(text.current, Catalog):
        compiled = compile_by_current_names(
            text.source, snapshot.catalog, text.current, text.name, text.file
        )
    else:
        compiled = compile_query(text.source, snapshot.catalog, text.name, text.file)
    if compiled.plan is None:
        raise InvalidArgument(f"query {compiled.name!r} changes the graph; run it with mutate")
    return compiled


class LocalExecutor(Binder):
    """All operators, bound to the views of one snapshot."""

    __slots__ = ()
    operators: ClassVar = {**PATTERN_OPERATORS, **ANSWER_OPERATORS, Point: bind_point}

    def table(self, plan: PhysicalOp, run: QueryRun) -> pa.Table:
        columns = self.bind(plan)(run, ONE_ROW).columns
        return pa.Table.from_arrays(list(columns.values()), list(columns))

    def answer(self, plan: PhysicalOp) -> Callable[[QueryRun], pa.RecordBatch | LateRows]:
        """A function that gives the rows of a run. Columns of very many rows are made in parts."""
        if not isinstance(plan, reads.Project):
            operate = self.bind(plan)

            def whole(run: QueryRun) -> pa.RecordBatch:
                columns = operate(run, ONE_ROW).columns
                return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))

            return whole
        below = self.bind(plan.input)
        names, values = [c.name for c in plan.columns], [c.value for c in plan.columns]
        stored = [v for v in values if isinstance(v, ex.PropertyOf | ex.ScoreRef)]
        may_be_plain = len(stored) == len(values)

        def projected(run: QueryRun) -> pa.RecordBatch | LateRows:
            frame = below(run, ONE_ROW)
            if frame.length <= _FEW and may_be_plain:
                plain = _plain_rows(stored, names, frame)
                if plain is not None:
                    return plain
            if _makes_columns_later(plan, frame):
                return UnprojectedRows(frame, plan, run.evaluator, run.limits)
            array = run.evaluator.array
            return pa.RecordBatch.from_arrays([array(value, frame) for value in values], names)

        return projected


def _plain_rows(
    values: list[ex.PropertyOf | ex.ScoreRef], names: list[str], frame: Frame
) -> PlainRows | None:
    """A few rows as Python values; None when a column needs Arrow."""
    places: dict[int, list[int]] = {}
    columns, kinds = list[list[Any]](), list[pa.DataType]()
    for value in values:
        if isinstance(value, ex.ScoreRef):
            columns.append([None if s != s else s for s in frame.scores[value.slot].tolist()])
            kinds.append(pa.float64())
            continue
        variable = value.variable.id
        binding = frame.bindings[variable]
        view = binding.view
        if binding.optional or not isinstance(view, TableView):
            return None
        column = view.content.plain_column(value.property)
        if column is None:
            return None
        at = places.get(variable)
        if at is None:
            at = places[variable] = binding.positions.tolist()
        columns.append(column.read(at))
        kinds.append(column.kind)
    return PlainRows(names, kinds, columns, frame.length)


@dataclass(frozen=True, slots=True)
class UnprojectedRows:
    """A large answer: rows by position, whose columns are made a few rows at a time."""

    frame: Frame
    project: Project
    evaluator: Evaluator
    limits: QueryLimits

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.project.columns]

    @property
    def length(self) -> int:
        return self.frame.length

    @property
    def is_ready(self) -> bool:
        return True

    def values(self, start: int, end: int) -> pa.RecordBatch:
        self.limits.check_cancelled()
        whole = start == 0 and end == self.frame.length
        part = self.frame if whole else self.frame.take(np.arange(start, end), ordered=True)
        arrays = [self.evaluator.array(c.value, part) for c in self.project.columns]
        return pa.RecordBatch.from_arrays(arrays, self.names)


def _makes_columns_later(project: Project, frame: Frame) -> bool:
    """For many rows, unless a column can still raise an error."""
    return frame.length > _LARGE and not any(may_fail(c.value) for c in project.columns)

"""The executors of the conformance suite: local in several settings, and Spark, on real graphs."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Hashable, Mapping
from pathlib import Path
from typing import Any

from omnigraph.catalog.model import EdgeType
from omnigraph.embed.choose import choose_provider
from omnigraph.errors import StorageFailure, ValidationFailed
from omnigraph.execute.query_runner import QueryRunner
from omnigraph.execute.topology.builds import Builds
from omnigraph.execute.topology.cache_files import CacheFiles, StoredTopology
from omnigraph.execute.topology.table_states import DeriveLimits
from omnigraph.execute.views.snapshot_views import SnapshotViews, ViewCache
from omnigraph.graph.access import Gate
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.ir.reads import ReadOp
from omnigraph.plan.estimates import Statistics
from omnigraph.plan.physical import PhysicalOp
from omnigraph.plan.planner import plan_read
from omnigraph.settings.models import EmbeddingSettings, ReadSettings
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph.values.query_request import QueryText
from omnigraph_testing.executor_suite import Answer
from omnigraph_testing.graph_data import GraphData
from omnigraph_testing.graph_helpers import with_parts

_FEW_ROWS_BYTES = 200
_RUNS = 4
_BUILDS_BETWEEN, _BUILDS_INSIDE, _BUILDS_THAT_FAIL = 0.5, 0.3, 0.2
_Edits = dict[str, dict[str, list[dict[str, Any]]]]


class LocalGraphs:
    """Runs queries locally, on graphs under a folder. Each graph is written once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[GraphData, Graph] = {}

    def run(
        self,
        graph: GraphData,
        source: str,
        parameters: Mapping[str, Any],
        gate: Gate | None = None,
    ) -> Answer:
        """A `Run` of the suite, in the scope that the gate gives."""
        opened = self.graph(graph).as_actor(None, gate=gate)
        opened.query(source, params=parameters)
        # Now all that the query reads is in memory.
        result = opened.query(source, params=parameters)
        return result.columns, result.to_pylist()

    def run_otherwise(
        self,
        graph: GraphData,
        source: str,
        parameters: Mapping[str, Any],
        *,
        without_rules: Collection[str],
        seed: int,
    ) -> Answer:
        """The answer without some rules of the planner, and with wrong row counts."""
        opened = self.graph(graph)
        chance = random.Random(seed)

        def plan(op: ReadOp, known: Statistics) -> PhysicalOp:
            counts = {key: chance.choice((0, 1, 64, 2**20)) for key in known.counts}
            return plan_read(op, Statistics(known.catalog, counts), without_rules)

        text = QueryText(source, None, parameters)
        result = opened.engine.queries.run_planned(opened.snapshot(), text, plan)
        return result.columns, result.to_pylist()

    def graph(self, graph: GraphData) -> Graph:
        if graph not in self._open:
            self._open[graph] = self.write(graph, self._folder / f"{len(self._open)}.omni")
        return self._open[graph]

    def write(self, graph: GraphData, place: Path) -> Graph:
        opened = init(place, graph.schema)
        if graph.lines:
            opened.apply(graph.edits())
        return opened


class SparkGraphs(LocalGraphs):
    """Runs queries with `engine="spark"`. A Spark session must be running."""

    def run(
        self,
        graph: GraphData,
        source: str,
        parameters: Mapping[str, Any],
        gate: Gate | None = None,
    ) -> Answer:
        opened = self.graph(graph).as_actor(None, gate=gate)
        result = opened.query(source, params=parameters, engine="spark")
        return result.columns, result.to_pylist()


class DerivedGraphs(LocalGraphs):
    """Graphs in two commits: cache files hold the first state, the second is derived from it."""

    def write(self, graph: GraphData, place: Path) -> Graph:
        opened = init(place, graph.schema)
        files = CacheFiles(place.with_suffix(".cache"), 1 << 30)
        caches = [_eager_cache(opened, files) for _ in range(2)]
        early, late = _halves(graph)
        try:
            if early:
                opened.apply(early)
            _touch_everything(opened, caches[0])
            if late:
                opened.apply(late)
        except ValidationFailed:
            # Half of this graph breaks a rule about numbers of edges.
            return super().write(graph, place.with_suffix(".whole"))
        return with_cache(opened, caches[1])


class ColdGraphs(LocalGraphs):
    """Nothing is in memory at the start of each query."""

    def run(
        self,
        graph: GraphData,
        source: str,
        parameters: Mapping[str, Any],
        gate: Gate | None = None,
    ) -> Answer:
        opened = self.graph(graph)
        forgetful = with_cache(opened, ViewCache(opened.engine.reader, 1 << 30))
        result = forgetful.as_actor(None, gate=gate).query(source, params=parameters)
        return result.columns, result.to_pylist()


class RandomBuilds(Builds):
    """Builds happen at chosen moments: before a query, or in the middle of one. Some fail."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(1 << 30, beside=True, threaded=False)
        self._chance = chance
        self.made = self.failed = 0

    def reads_storage(
        self,
        name: Hashable,
        storage: float,
        build: float,
        size: int,
        make: Callable[[], object],
    ) -> bool:
        found = super().reads_storage(name, storage, build, size, make)
        while self._chance.random() < _BUILDS_INSIDE and self.step():
            pass
        return found

    def start(self, name: Hashable, make: Callable[[], object]) -> None:
        fails = self._chance.random() < _BUILDS_THAT_FAIL

        def counted() -> None:
            if fails:
                self.failed += 1
                raise StorageFailure("a build that fails")
            make()
            self.made += 1

        super().start(name, counted)


class BuildingGraphs(LocalGraphs):
    """Each query runs several times, while what it could do without is built beside it.

    Every run must give the answer of the first one.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._chance = random.Random(7)
        self.made = self.failed = 0

    def run(
        self,
        graph: GraphData,
        source: str,
        parameters: Mapping[str, Any],
        gate: Gate | None = None,
    ) -> Answer:
        opened = self.graph(graph)
        builds = RandomBuilds(self._chance)
        cache = ViewCache(opened.engine.reader, 1 << 30, builds=builds)
        beside = with_cache(opened, cache).as_actor(None, gate=gate)
        answers = []
        for _ in range(_RUNS):
            result = beside.query(source, params=parameters)
            answers.append((result.columns, result.to_pylist()))
            while self._chance.random() < _BUILDS_BETWEEN and builds.step():
                pass
        first = repr(answers[0])
        assert all(repr(answer) == first for answer in answers), f"{source}: {answers}"
        self.made += builds.made
        self.failed += builds.failed
        return answers[-1]


class TightGraphs(LocalGraphs):
    """Memory holds only a few rows, so that queries spill to disk."""

    def run(
        self,
        graph: GraphData,
        source: str,
        parameters: Mapping[str, Any],
        gate: Gate | None = None,
    ) -> Answer:
        opened = self.graph(graph)
        cache = ViewCache(opened.engine.reader, 1 << 30)
        tight = with_cache(opened, cache, ReadSettings(memory_bytes=_FEW_ROWS_BYTES))
        result = tight.as_actor(None, gate=gate).query(source, params=parameters)
        return result.columns, result.to_pylist()


def with_cache(graph: Graph, cache: ViewCache, settings: ReadSettings | None = None) -> Graph:
    provider = choose_provider(EmbeddingSettings(), {}, SYSTEM_CLOCK)
    queries = QueryRunner(cache, settings or ReadSettings(), provider, SYSTEM_CLOCK)
    return with_parts(graph, queries=queries)


def _eager_cache(graph: Graph, files: CacheFiles) -> ViewCache:
    always = DeriveLimits(smallest_table=0, most_share=1e6, steps_share=1e6)
    return ViewCache(graph.engine.reader, 1 << 30, StoredTopology(files, smallest=0), always)


def _halves(graph: GraphData) -> tuple[_Edits, _Edits]:
    """Two commits. The second has the last node of each type, its edges, every second edge."""
    missing = {(name, list(rows)[-1]) for name, rows in graph.nodes.items() if rows}
    early: _Edits = {}
    late: _Edits = {}
    for name, rows in graph.tables.items():
        entity = graph.catalog.resolve(name)
        parts: tuple[list[Any], list[Any]] = ([], [])
        for number, row in enumerate(rows.values()):
            if isinstance(entity, EdgeType):
                ends = {(entity.source, row["src"]), (entity.target, row["dst"])}
                waits = number % 2 == 1 or bool(ends & missing)
            else:
                waits = (name, row["id"]) in missing
            parts[waits].append(dict(row))
        for half, chosen in zip((early, late), parts, strict=True):
            if chosen:
                half[name] = {"insert": chosen}
    return early, late


def _touch_everything(graph: Graph, cache: ViewCache) -> None:
    snapshot = graph.snapshot()
    views = SnapshotViews(snapshot, cache)
    for key in snapshot.tables:
        table = views.table(key)
        for column in table.plain_columns:
            table.column(column)
    for edge in snapshot.catalog.edges:
        adjacency = views.adjacency(edge.name)
        assert len(adjacency.out.nodes) == len(adjacency.into.nodes)

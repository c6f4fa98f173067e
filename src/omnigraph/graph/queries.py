"""Run queries of the language on a snapshot."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from omnigraph.errors import InvalidArgument
from omnigraph.execute.local.local_executor import execute
from omnigraph.execute.local.views import SnapshotViews, ViewCache
from omnigraph.execute.result import QueryResult
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.plan.physical import PhysicalOp
from omnigraph.plan.planner import plan_read
from omnigraph.query.compiler import CompiledQuery, compile_query
from omnigraph.values.clock import Clock


def run_query(
    snapshot: Snapshot,
    cache: ViewCache,
    clock: Clock,
    source: str,
    name: str | None,
    params: Mapping[str, object] | None,
) -> QueryResult:
    """Compile (cached), bind, execute."""
    compiled = compile_query(source, snapshot.catalog, name)
    if compiled.plan is None:
        raise InvalidArgument(f"query {compiled.name!r} changes the graph: use mutate for it")
    parameters: dict[str, Any] = compiled.bind(params)
    now_millis = clock.now_micros() // 1000
    table = execute(_planned(compiled), SnapshotViews(snapshot, cache), parameters, now_millis)
    return QueryResult(compiled.name, snapshot.graph_branch, snapshot.graph_commit_id, table)


_PLANS = 1024
_plans: OrderedDict[int, tuple[CompiledQuery, PhysicalOp]] = OrderedDict()


def _planned(compiled: CompiledQuery) -> PhysicalOp:
    """The physical plan of a compiled query; compiled queries are cached objects themselves."""
    found = _plans.get(id(compiled))
    if found is None:
        assert compiled.plan is not None
        found = _plans[id(compiled)] = (compiled, plan_read(compiled.plan))
        while len(_plans) > _PLANS:
            _plans.popitem(last=False)
    return found[1]

"""Where the microseconds of one warm hop go: the steps of `Graph.query`, one by one."""

from __future__ import annotations

import time
from typing import Any

import omnigraph
from bench.query import QUERIES
from omnigraph.execute import query_runner
from omnigraph.execute.query_types import QueryResult
from omnigraph.execute.views.frame import ONE_ROW
from omnigraph.ir import reads
from omnigraph.plan.physical import Point, with_input
from omnigraph.values.query_request import QueryBounds, QueryText

RUNS = 4_000
TEXT = QUERIES["a"][1]


def stages(graph: omnigraph.Graph, params: dict[str, Any]) -> dict[str, float]:
    """Microseconds of each step, the first quartile of many runs."""
    runner = graph.engine.queries
    for _ in range(500):
        graph.query(TEXT, params=params).to_pylist()
    head = runner._at(graph.snapshot())
    compiled = query_runner.compile_read(graph.snapshot(), QueryText(TEXT, None, params))
    plan: Any = runner._planned(compiled, head.statistics)
    operators = [(name, head.executor.bind(op)) for name, op in below(plan)]
    (column,) = plan.columns
    times: dict[str, list[int]] = {}
    clock = time.perf_counter_ns

    def note(what: str, began: int) -> int:
        times.setdefault(what, []).append(clock() - began)
        return clock()

    for _ in range(RUNS):
        began = clock()
        snapshot = graph.snapshot()
        began = note("the head and its snapshot", began)
        found = runner._bound(runner._at(snapshot), snapshot, QueryText(TEXT, None, params))
        began = note("text, bound plan", began)
        run = runner._run(found.compiled.bind(params), QueryBounds())
        began, frame = note("parameters, limits", began), ONE_ROW
        for name, operate in operators:
            frame = operate(run, frame)
            began = note(name, began)
        rows = query_runner._plain_rows([column.value], [column.name], frame)
        began = note("names", began)
        assert rows is not None
        names = found.compiled.name, snapshot.graph_branch, snapshot.graph_commit_id
        result = QueryResult(*names, rows)
        began = note("result", began)
        result.to_pylist()
        note("to Python rows", began)
        began = clock()
        graph.query(TEXT, params=params).to_pylist()
        note("all of it in one call", began)
    return {what: sorted(found)[len(found) // 4] / 1000 for what, found in times.items()}


def below(plan: Any) -> list[tuple[str, Any]]:
    """The operators under the projection, the first one first: the walk from the key is one."""
    found = []
    op = plan.input
    while not isinstance(op, Point):
        found.append((type(op).__name__, with_input(op, reads.Rows())))
        op = op.input
    return [("the walk: lookup, hop", op), *found[::-1]]

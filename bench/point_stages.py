"""Where the microseconds of one warm hop go: the steps of `Graph.query`, one by one."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa

import omnigraph
from bench.query import QUERIES
from omnigraph.execute import query_runner
from omnigraph.execute.query_types import QueryResult
from omnigraph.execute.views.frame import ONE_ROW
from omnigraph.ir import reads
from omnigraph.plan.physical import with_input
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
    operators = [
        (name, head.executor.bind(with_input(op, reads.Rows()))) for name, op in below(plan)
    ]
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
        found = query_runner.compile_read(snapshot, QueryText(TEXT, None, params))
        bound = runner._at(snapshot).bound.get(id(found))
        began = note("compiled text, bound plan", began)
        assert bound is not None
        run = runner._run(found.bind(params), QueryBounds())
        began, frame = note("parameters, limits", began), ONE_ROW
        for name, operate in operators:
            frame = operate(run, frame)
            began = note(name, began)
        array = run.evaluator.array(column.value, frame)
        began = note("names", began)
        rows = pa.RecordBatch.from_arrays([array], [column.name])
        result = QueryResult(found.name, snapshot.graph_branch, snapshot.graph_commit_id, rows)
        began = note("result", began)
        result.to_pylist()
        note("to Python rows", began)
        began = clock()
        graph.query(TEXT, params=params).to_pylist()
        note("all of it in one call", began)
    return {what: sorted(found)[len(found) // 4] / 1000 for what, found in times.items()}


def below(plan: Any) -> list[tuple[str, Any]]:
    """The operators under the projection, the first one first."""
    found = []
    op = plan.input
    while not isinstance(op, reads.Rows):
        found.append((type(op).__name__, op))
        op = op.input
    return found[::-1]

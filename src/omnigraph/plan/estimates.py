"""Rows every operator is thought to make; `explain` shows them beside the paths chosen."""

from __future__ import annotations

from math import prod
from typing import Any

from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.plan.physical import Find, Follow, PhysicalOp
from omnigraph.plan.selectivity import fraction_left
from omnigraph.plan.statistics import Statistics

_GROUPS = 0.1
_NO_MATCH = 0.5
_HOPS = 8


def estimate_rows(plan: PhysicalOp, statistics: Statistics) -> dict[int, float]:
    """By the identity of the operator; sub-patterns count per row of their block."""
    found: dict[int, float] = {}
    _estimate(plan, statistics, found)
    return found


def rows_reached(op: reads.Expand, statistics: Statistics) -> float:
    """Rows an Expand makes of one row."""
    fan_out = sum(statistics.per_node(way) for way in op.steps)
    targets = statistics.rows_of(op.target)
    if op.mode is not reads.ExpandMode.EDGE:
        hops = min(op.hops.maximum if op.hops.maximum is not None else _HOPS, _HOPS)
        depths = range(1, hops + 1)
        fan_out = min(float(targets), sum(max(fan_out, 0.01) ** depth for depth in depths))
    return min(1.0, fan_out / targets) if op.target_bound else fan_out


def _estimate(op: Any, statistics: Statistics, found: dict[int, float]) -> float:  # noqa: C901
    if isinstance(op, reads.Rows):
        return 1.0
    before = _estimate(op.input, statistics, found)
    match op:
        case reads.NodeScan(_, variable):
            rows = before * statistics.rows_of(variable)
        case Find():
            rows = before * _found(op, statistics)
        case reads.Filter(_, predicate):
            rows = before * fraction_left(predicate, statistics)
        case reads.Expand():
            rows = before * rows_reached(op, statistics)
        case Follow(_, expand, on_edge, on_target):
            left = prod(fraction_left(p, statistics) for p in (*on_edge, *on_target))
            rows = before * rows_reached(expand, statistics) * left
        case reads.AntiJoin(_, pattern):
            _estimate(pattern, statistics, found)
            rows = before * _NO_MATCH
        case reads.Optional(_, pattern):
            rows = before * max(1.0, _estimate(pattern, statistics, found))
        case reads.Aggregate(_, keys):
            rows = max(1.0, before * _GROUPS) if keys else 1.0
        case reads.Limit(_, ex.Constant(int() as count)):
            rows = min(before, float(count))
        case _:
            rows = before
    found[id(op)] = rows
    return rows


def _found(op: Find, statistics: Statistics) -> float:
    count = statistics.rows_of(op.variable)
    left = prod(fraction_left(p, statistics) for p in op.where)
    if op.look_up is None:
        return count * left
    named = 1.0
    if op.look_up.several:
        listed = op.look_up.wanted
        named = len(listed.value) if isinstance(listed, ex.Constant) and listed.value else 10.0
    return min(float(count), named) * left

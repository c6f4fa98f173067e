"""Rule: edges and their far ends are judged while they are followed.

A predicate about the edge alone, or about the node met alone, is asked before the row of all other
variables is made; where there are more edges to follow than entities to judge, once per entity.
"""

from __future__ import annotations

from typing import Any

from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.plan.failing import may_fail
from omnigraph.plan.physical import Follow
from omnigraph.plan.usage import conjuncts_of, variables_in
from omnigraph.plan.whole_plan import everywhere


def filter_in_expand(op: Any) -> Any:
    return everywhere(op, _take_in)


def _take_in(op: Any) -> Any:
    predicates: list[ex.Expression] = []
    below = op
    while isinstance(below, reads.Filter):
        predicates[:0] = conjuncts_of(below.predicate)
        below = below.input
    if not isinstance(below, reads.Expand) or below.mode is not reads.ExpandMode.EDGE:
        return op
    edge = {below.edge.id} if below.edge is not None else set()
    target = set() if below.target_bound else {below.target.id}
    on_edge, on_target, others = [], [], []
    for predicate in predicates:
        asked = variables_in([predicate])
        if asked and not may_fail(predicate) and asked == edge:
            on_edge.append(predicate)
        elif asked and not may_fail(predicate) and asked == target:
            on_target.append(predicate)
        else:
            others.append(predicate)
    if not on_edge and not on_target:
        return op
    rows: Any = Follow(below.input, below, tuple(on_edge), tuple(on_target))
    for predicate in others:
        rows = reads.Filter(rows, predicate)
    return rows

"""Rule: a block starts at the cheapest variable and takes the cheapest step next.

The rows of a block do not depend on the order in which its variables are bound, and operators above
the block settle the order of the answer. So the planner may start at the other end of a pattern and
follow edges backwards. The order of the query text stays unless another order is clearly cheaper.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.ir.walk import map_patterns, variables_in
from omnigraph.plan.analysis import given_by, may_fail
from omnigraph.plan.estimates import Statistics, fraction_left, rows_reached
from omnigraph.plan.physical import with_input

# Estimates are rough, so another order must promise to halve the work.
_CLEARLY = 0.5
# The cost of reading one entity, as a fraction of the cost of making one row.
_LOOK = 0.1
# With more variables than this, trying every start takes too long.
_MOST_STARTS = 16

_SYMMETRIC = (reads.ExpandMode.EDGE, reads.ExpandMode.REACH)
_SEGMENT = (reads.NodeScan, reads.Expand, reads.Filter)

_Step = reads.NodeScan | reads.Expand


def choose_order(op: Any, statistics: Statistics) -> Any:
    """The plan with every block in its cheapest order, sub-patterns included."""
    if isinstance(op, reads.Rows):
        return op
    if isinstance(op, _SEGMENT):
        segment = []
        below: Any = op
        while isinstance(below, _SEGMENT):
            segment.append(below)
            below = below.input
        base = choose_order(below, statistics)
        return _best_order(base, segment[::-1], statistics)
    op = with_input(op, choose_order(op.input, statistics))
    return map_patterns(op, lambda pattern: choose_order(pattern, statistics))


def _best_order(base: Any, segment: list[Any], statistics: Statistics) -> Any:
    steps = [step for step in segment if not isinstance(step, reads.Filter)]
    predicates = [step.predicate for step in segment if isinstance(step, reads.Filter)]
    bound = given_by(base)
    text = _Order(statistics, predicates, bound)
    for step in steps:
        text.take(step)
    best = text
    hops = [step for step in steps if isinstance(step, reads.Expand)]
    if hops and _may_reorder(hops):
        nodes = _nodes(steps)
        starts = [n for n in nodes if n.id not in bound][:_MOST_STARTS]
        for start in [None, *starts] if bound else starts:
            order = _from(start, hops, nodes, _Order(statistics, predicates, bound))
            if order.cost < best.cost and order.cost < text.cost * _CLEARLY:
                best = order
    return best.build(base)


def _may_reorder(hops: list[reads.Expand]) -> bool:
    """Every edge and path is bound by one hop, and a node has the same types in all hops."""
    named = [v.id for hop in hops for v in (hop.edge, hop.path) if v is not None]
    ends = {v for hop in hops for v in (hop.source, hop.target)}
    return len(named) == len(set(named)) and len(ends) == len({v.id for v in ends})


def _nodes(steps: list[Any]) -> list[ex.Variable]:
    """The nodes of a block, in the order in which the query text binds them."""
    found: dict[int, ex.Variable] = {}
    for step in steps:
        ends = (step.variable,) if isinstance(step, reads.NodeScan) else (step.source, step.target)
        for node in ends:
            found.setdefault(node.id, node)
    return list(found.values())


@dataclass
class _Order:
    """The steps taken so far, the rows they are expected to make, and their cost."""

    statistics: Statistics
    predicates: list[ex.Expression]
    bound: frozenset[int]
    rows: float = 1.0
    cost: float = 0.0
    steps: list[_Step] = field(default_factory=list)

    def take(self, step: _Step) -> None:
        self.rows, work = self.after(step)
        self.cost += work
        self.bound |= _binds(step)
        self.steps.append(step)

    def after(self, step: _Step) -> tuple[float, float]:
        """Rows after the step and the filters that it makes possible, and the cost of both."""
        known = self.bound | _binds(step)
        left = 1.0
        for predicate in self.predicates:
            asked = variables_in([predicate])
            if asked <= known and not asked <= self.bound:
                left *= fraction_left(predicate, self.statistics)
        made, read = _made(step, self.rows, self.statistics)
        remaining = made * left
        if isinstance(step, reads.NodeScan):
            # An id or key is looked up; any other filter reads all entities of the type.
            read = self.rows if left <= 2 / max(2.0, read) else read
            return remaining, remaining + _LOOK * read
        return remaining, made + _LOOK * read

    def build(self, base: Any) -> Any:
        """The operators: a filter once its variables are bound, those that can fail at the end."""
        rows = base
        waiting = list(self.predicates)
        bound = given_by(base)

        def apply(*, fallible: bool) -> None:
            nonlocal rows, waiting
            later = []
            for predicate in waiting:
                if variables_in([predicate]) <= bound and (fallible or not may_fail(predicate)):
                    rows = reads.Filter(rows, predicate)
                else:
                    later.append(predicate)
            waiting = later

        apply(fallible=False)
        for step in self.steps:
            rows = replace(step, input=rows)
            bound |= _binds(step)
            apply(fallible=False)
        apply(fallible=True)
        assert not waiting, "a filter reads a variable that its block does not bind"
        return rows


def _binds(step: _Step) -> frozenset[int]:
    if isinstance(step, reads.NodeScan):
        return frozenset({step.variable.id})
    return frozenset(v.id for v in (step.target, step.edge, step.path) if v is not None)


def _made(step: _Step, rows: float, statistics: Statistics) -> tuple[float, float]:
    """Rows that a step makes before filters, and how many entities it reads."""
    if isinstance(step, reads.NodeScan):
        count = statistics.rows_of(step.variable)
        return rows * count, float(count)
    if step.target_bound:
        followed = rows_reached(replace(step, target_bound=False), statistics)
        return rows * rows_reached(step, statistics), rows * followed
    return rows * rows_reached(step, statistics), rows


def _from(
    start: ex.Variable | None, hops: list[reads.Expand], nodes: list[ex.Variable], order: _Order
) -> _Order:
    """Take the cheapest next step until none is left; scan a node only when no hop is ready."""
    left = list(hops)
    if start is not None:
        order.take(reads.NodeScan(reads.Rows(), start))
    while left:
        ready = [(hop, turned) for hop in left if (turned := _turned(hop, order.bound))]
        if ready:
            hop, turned = min(ready, key=lambda pair: order.after(pair[1])[0])
            order.take(turned)
            left.remove(hop)
        else:
            waiting = [hop.source for hop in left if hop.source.id not in order.bound]
            order.take(reads.NodeScan(reads.Rows(), waiting[0]))
    for node in nodes:
        if node.id not in order.bound:
            order.take(reads.NodeScan(reads.Rows(), node))
    return order


def _turned(hop: reads.Expand, bound: frozenset[int]) -> reads.Expand | None:
    """The hop as it can be taken now, backwards if needed; None when neither end is bound."""
    if hop.source.id in bound:
        return replace(hop, target_bound=hop.target.id in bound)
    if hop.target.id in bound and hop.mode in _SYMMETRIC and hop.path is None:
        steps = tuple(replace(s, direction=s.direction.reversed) for s in hop.steps)
        return replace(hop, source=hop.target, target=hop.source, steps=steps, target_bound=False)
    return None

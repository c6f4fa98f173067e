"""IR to physical plan: the rules, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from omnigraph.ir.reads import ReadOp
from omnigraph.plan.count_instead_of_follow import count_instead_of_follow
from omnigraph.plan.distinct_early import distinct_early
from omnigraph.plan.physical import PhysicalOp
from omnigraph.plan.prune_bindings import prune_bindings

# Counting first: what is counted needs neither thinning nor pruning. Pruning last: it must see
# what the others left.
RULES: tuple[Callable[[Any], Any], ...] = (
    count_instead_of_follow,
    distinct_early,
    prune_bindings,
)


def plan_read(op: ReadOp) -> PhysicalOp:
    planned: PhysicalOp = op
    for rule in RULES:
        planned = rule(planned)
    return planned

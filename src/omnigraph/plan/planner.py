"""IR to physical plan: the rules, in order."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from omnigraph.ir.reads import ReadOp
from omnigraph.plan.choose_order import choose_order
from omnigraph.plan.count_instead_of_follow import count_instead_of_follow
from omnigraph.plan.distinct_early import distinct_early
from omnigraph.plan.filter_in_expand import filter_in_expand
from omnigraph.plan.filter_in_scan import filter_in_scan
from omnigraph.plan.nearest_first import nearest_first
from omnigraph.plan.physical import PhysicalOp
from omnigraph.plan.prune_bindings import prune_bindings
from omnigraph.plan.push_filters import push_filters
from omnigraph.plan.read_cold import read_cold
from omnigraph.plan.statistics import Statistics


@dataclass(frozen=True, slots=True)
class Rule:
    """One rewrite that keeps the answer; plans are right with any of them left out."""

    name: str
    apply: Callable[[Any, Statistics], Any]


# Filters first, so that the order is chosen knowing them. Counting before thinning: what is counted
# needs neither thinning nor pruning. Pruning last: it must see what the others left.
RULES: tuple[Rule, ...] = (
    Rule("push_filters", lambda op, _: push_filters(op)),
    Rule("choose_order", choose_order),
    Rule("filter_in_scan", filter_in_scan),
    Rule("filter_in_expand", lambda op, _: filter_in_expand(op)),
    Rule("nearest_first", lambda op, _: nearest_first(op)),
    Rule("count_instead_of_follow", lambda op, _: count_instead_of_follow(op)),
    Rule("distinct_early", lambda op, _: distinct_early(op)),
    Rule("prune_bindings", lambda op, _: prune_bindings(op)),
    Rule("read_cold", lambda op, _: read_cold(op)),
)


def plan_read(
    op: ReadOp, statistics: Statistics, without: Collection[str] = frozenset()
) -> PhysicalOp:
    """`without` names rules to leave out; the rows stay the same."""
    planned: PhysicalOp = op
    for rule in RULES:
        if rule.name not in without:
            planned = rule.apply(planned, statistics)
    return planned

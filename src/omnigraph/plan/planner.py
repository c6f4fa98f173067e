"""IR to physical plan: the rules, in order."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from omnigraph.ir import reads
from omnigraph.ir.expressions import ScoreRef
from omnigraph.ir.reads import ReadOp
from omnigraph.plan.aggregate_rules import count_instead_of_follow, distinct_early
from omnigraph.plan.analysis import used_by
from omnigraph.plan.choose_order import choose_order
from omnigraph.plan.estimates import Statistics
from omnigraph.plan.filter_rules import filter_in_expand, filter_in_scan, push_filters
from omnigraph.plan.physical import Find, Follow, Keep, Nearest, PhysicalOp, with_input
from omnigraph.plan.read_cold import read_cold


def nearest_first(op: Any) -> Any:
    match op:
        case reads.Rows():
            return op
        case reads.Limit(
            reads.OrderBy(
                reads.Search(inner, function="nearest", keep_unmatched=False) as search,
                (reads.SortKey(ScoreRef(slot), descending=False),),
            ) as order,
            count,
        ) if slot == search.slot and count is not None and _one_type(inner):
            return with_input(op, with_input(order, Nearest(inner, search)))
        case _:
            return with_input(op, nearest_first(op.input))


def _one_type(op: Any) -> bool:
    """Rows of one scan and nothing before it, filtered or not."""
    while isinstance(op, reads.Filter):
        op = op.input
    match op:
        case reads.NodeScan(reads.Rows(variables=())) | Find(reads.Rows(variables=())):
            return True
        case _:
            return False


_FRESH = (reads.Project, reads.Aggregate)


def prune_bindings(op: Any) -> Any:
    """Every Expand keeps only what somebody above it needs."""
    return _prune(op, frozenset())


def _prune(op: Any, needed: frozenset[int]) -> Any:
    if isinstance(op, reads.Rows):
        return op
    wanted = used_by(op) if isinstance(op, _FRESH) else needed | used_by(op)
    inner = _prune(op.input, wanted)
    changed = with_input(op, inner)
    if isinstance(op, reads.Expand | Follow):
        return Keep(changed, needed)
    return changed


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

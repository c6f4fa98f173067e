"""From the IR to a physical plan: the rules in their order, and two rules that are short.

A rule is a rewrite that keeps the answer. The longer rules are in modules of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from omnigraph.ir import reads
from omnigraph.ir.expressions import ScoreRef
from omnigraph.ir.reads import ReadOp
from omnigraph.plan.aggregate_rules import count_instead_of_follow, distinct_early
from omnigraph.plan.analysis import used_by
from omnigraph.plan.between_rule import count_between
from omnigraph.plan.choose_order import choose_order
from omnigraph.plan.estimates import Statistics
from omnigraph.plan.filter_rules import filter_in_expand, filter_in_scan, push_filters
from omnigraph.plan.physical import Best, Find, Follow, Keep, PhysicalOp, with_input
from omnigraph.plan.point_rule import point_first
from omnigraph.plan.read_cold import read_cold

_STARTS_A_ROW = (reads.Project, reads.Aggregate)


def best_first(op: Any) -> Any:
    """Rule: an index answers a ranking of one type of which only the best rows are wanted.

    Every entity is in the rows at most once and no other variable is bound, so the best `limit`
    entities of the index are the best `limit` rows. Filters of the scan are applied before; the
    index gets the entities they leave as candidates.
    """
    match op:
        case reads.Rows():
            return op
        case reads.Limit(
            reads.OrderBy(
                reads.Search(inner, keep_unmatched=False) as search,
                (reads.SortKey(ScoreRef(slot), descending=descending),),
            ) as order,
            count,
        ) if (
            slot == search.slot
            and count is not None
            and descending is (search.function == "bm25")
            and _one_type(inner)
        ):
            return with_input(op, with_input(order, Best(inner, search)))
        case _:
            return with_input(op, best_first(op.input))


def _one_type(op: Any) -> bool:
    """The rows come from one scan, with or without filters, and nothing is bound before it."""
    while isinstance(op, reads.Filter):
        op = op.input
    match op:
        case reads.NodeScan(reads.Rows(variables=())) | Find(reads.Rows(variables=())):
            return True
        case _:
            return False


def prune_bindings(op: Any) -> Any:
    """Rule: after an Expand, a row keeps only the variables that the operators above read."""
    return _prune(op, frozenset())


def _prune(op: Any, needed: frozenset[int]) -> Any:
    if isinstance(op, reads.Rows):
        return op
    wanted = used_by(op) if isinstance(op, _STARTS_A_ROW) else needed | used_by(op)
    inner = _prune(op.input, wanted)
    changed = with_input(op, inner)
    if isinstance(op, reads.Expand | Follow):
        return Keep(changed, needed)
    return changed


@dataclass(frozen=True, slots=True)
class Rule:
    """One rewrite that keeps the answer; a plan is right without it too."""

    name: str
    apply: Callable[[Any, Statistics], Any]


# Filters come first, because the choice of the order depends on them. Counting comes before
# distinct rows, because counted edges need neither distinct rows nor pruning. Pruning comes after
# all rules that change which variables are read. The last rule only says which steps run as one.
RULES: tuple[Rule, ...] = (
    Rule("push_filters", lambda op, _: push_filters(op)),
    Rule("choose_order", choose_order),
    Rule("filter_in_scan", filter_in_scan),
    Rule("filter_in_expand", lambda op, _: filter_in_expand(op)),
    Rule("best_first", lambda op, _: best_first(op)),
    Rule("count_between", count_between),
    Rule("count_instead_of_follow", lambda op, _: count_instead_of_follow(op)),
    Rule("distinct_early", lambda op, _: distinct_early(op)),
    Rule("prune_bindings", lambda op, _: prune_bindings(op)),
    Rule("read_cold", lambda op, _: read_cold(op)),
    Rule("point_first", lambda op, _: point_first(op)),
)


def plan_read(
    op: ReadOp, statistics: Statistics, without: Collection[str] = frozenset()
) -> PhysicalOp:
    """The plan after all rules but those in `without`; the rows are the same either way."""
    planned: PhysicalOp = op
    for rule in RULES:
        if rule.name not in without:
            planned = rule.apply(planned, statistics)
    return planned

"""Rule: a ranking of one type of which only the best rows are wanted is left to the vector index.

Every entity is in the rows at most once and nothing else is bound, so the best `limit` of the index
are the best `limit` rows; filters of the scan come first and are given to the index as candidates.
"""

from __future__ import annotations

from typing import Any

from omnigraph.ir import reads
from omnigraph.ir.expressions import ScoreRef
from omnigraph.plan.physical import Find, Nearest, with_input


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

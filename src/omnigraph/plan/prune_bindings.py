"""Rule: bindings are dropped where the last operator that asks for them is done."""

from __future__ import annotations

from typing import Any

from omnigraph.ir import reads
from omnigraph.plan.physical import Follow, Keep, with_input
from omnigraph.plan.usage import used_by

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

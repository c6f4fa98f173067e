"""Apply a local rewrite at every operator of a plan, sub-patterns included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from omnigraph.ir import reads
from omnigraph.plan.physical import with_input


def everywhere(op: Any, change: Callable[[Any], Any]) -> Any:
    """`change` from the top down; what it returns is gone into from its input."""
    if isinstance(op, reads.Rows):
        return op
    op = change(op)
    inner = everywhere(op.input, change)
    if isinstance(op, reads.AntiJoin | reads.Optional):
        return replace(op, input=inner, pattern=everywhere(op.pattern, change))
    return with_input(op, inner)

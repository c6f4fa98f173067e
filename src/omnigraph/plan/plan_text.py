"""The stable text of a physical plan: one line per operator, in the order rows flow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omnigraph.ir import reads
from omnigraph.ir.ir_text import operator_text
from omnigraph.plan.physical import DistinctOn, Keep, PhysicalOp, Weigh

_INDENT = "  "


def plan_lines(plan: PhysicalOp, depth: int = 0) -> Iterator[tuple[PhysicalOp, str]]:
    """Every operator with its line; sub-patterns are indented below theirs."""
    chain: list[Any] = []
    current: Any = plan
    while current is not None:
        chain.append(current)
        current = getattr(current, "input", None)
    for op in reversed(chain):
        if isinstance(op, reads.Rows) and not op.variables:
            continue
        yield op, _INDENT * depth + _line(op)
        if isinstance(op, reads.AntiJoin | reads.Optional):
            yield from plan_lines(op.pattern, depth + 1)


def _line(op: Any) -> str:
    match op:
        case Weigh(_, expand):
            return f"Count {operator_text(expand)} (edges are counted, not followed)"
        case DistinctOn(_, variables):
            return f"DistinctOn {_numbers(variables)} (only the set matters above)"
        case Keep(_, variables):
            return f"Keep {_numbers(variables)}"
        case _:
            return operator_text(op)


def _numbers(variables: frozenset[int]) -> str:
    return ", ".join(f"#{v}" for v in sorted(variables)) or "nothing"

"""The text of a physical plan: one line per operator, in the order in which rows flow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omnigraph.ir import reads
from omnigraph.ir.expressions import Expression, Variable
from omnigraph.ir.ir_text import expression_text, operator_text, variable_text
from omnigraph.plan.estimates import Statistics, estimate_rows, rows_reached
from omnigraph.plan.physical import (
    DistinctOn,
    Find,
    Follow,
    Keep,
    LookUp,
    Nearest,
    PhysicalOp,
    Weigh,
)

_INDENT = "  "


def plan_lines(plan: PhysicalOp, depth: int = 0) -> Iterator[tuple[PhysicalOp, str]]:
    """Every operator with its line; a sub-pattern is indented below its operator."""
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


def explained(plan: PhysicalOp, statistics: Statistics) -> str:
    """The plan with the expected rows of each operator and the access path it uses."""
    rows = estimate_rows(plan, statistics)
    lines = list(plan_lines(plan))
    limited = {id(op.input) for op, _ in lines if isinstance(op, reads.Limit)}
    return "\n".join(
        f"{line}  -- {_about(rows[id(op)])}{_why(op, statistics, top=id(op) in limited)}"
        if id(op) in rows
        else line
        for op, line in lines
    )


def _about(rows: float) -> str:
    count = max(1, round(rows))
    return f"~{count:,} row{'s' if count > 1 else ''}"


def _why(op: Any, statistics: Statistics, *, top: bool) -> str:
    match op:
        case Find(_, variable, LookUp(per_row=per_row)):
            how = "joined on the id" if per_row else "found by name"
            return f": {how}, of {statistics.rows_of(variable):,}{_cold(op)}"
        case Find(_, variable):
            return f": a pass over {statistics.rows_of(variable):,}{_cold(op)}"
        case reads.NodeScan(_, variable):
            return f": a pass over {statistics.rows_of(variable):,}"
        case reads.Expand() if not op.target_bound:
            return f": ~{rows_reached(op, statistics):.2g} per row"
        case Follow(_, expand) if not expand.target_bound:
            return (
                f": ~{rows_reached(expand, statistics):.2g} per row, filtered before rows are made"
            )
        case reads.OrderBy() if top:
            return ": only the first are sorted, other columns are read after"
        case _:
            return ""


def _cold(op: Find) -> str:
    if op.cold is None:
        return ""
    return f"; while not in memory, {', '.join(op.cold.columns)} straight from storage"


def _line(op: Any) -> str:
    match op:
        case Find(_, variable, None, where):
            return f"NodeScan {_typed(variable)}{_where(where)}"
        case Find(_, variable, LookUp() as look_up, where):
            word = "in" if look_up.several else "="
            name = f"{variable_text(variable)}.{look_up.property}"
            wanted = f"{name} {word} {expression_text(look_up.wanted)}"
            return f"LookUp {_typed(variable)} by {wanted}{_where(where)}"
        case Follow(_, expand, on_edge, on_target):
            return operator_text(expand) + _where((*on_edge, *on_target))
        case Nearest(_, search):
            return f"{operator_text(search)} (the index may answer)"
        case Weigh(_, expand):
            return f"Count {operator_text(expand)} (edges are counted, not followed)"
        case DistinctOn(_, variables):
            return f"DistinctOn {_numbers(variables)} (only the set matters above)"
        case Keep(_, variables):
            return f"Keep {_numbers(variables)}"
        case _:
            return operator_text(op)


def _typed(variable: Variable) -> str:
    return f"{variable_text(variable)}: {'|'.join(variable.types)}"


def _where(predicates: tuple[Expression, ...]) -> str:
    texts = [expression_text(predicate) for predicate in predicates]
    return f" where {' and '.join(texts)}" if texts else ""


def _numbers(variables: frozenset[int]) -> str:
    return ", ".join(f"#{v}" for v in sorted(variables)) or "nothing"

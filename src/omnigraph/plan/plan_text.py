"""A physical plan for people and tools: its operators in the order in which rows flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from omnigraph.ir import reads
from omnigraph.ir.expressions import Expression, Variable
from omnigraph.ir.ir_text import expression_text, operator_text, variable_text
from omnigraph.ir.walk import inner_patterns
from omnigraph.plan.estimates import Statistics, estimate_rows, rows_reached
from omnigraph.plan.physical import (
    Best,
    DistinctOn,
    Find,
    Follow,
    Keep,
    LookUp,
    PhysicalOp,
    Point,
    Weigh,
    WeighBetween,
)

_INDENT = "  "


def plan_lines(
    plan: PhysicalOp, depth: int = 0, name: str = ""
) -> Iterator[tuple[PhysicalOp, str]]:
    """Every operator with its line; a sub-pattern is indented below its operator.

    The pattern of an ExistsFilter has a name, which its first line says. A Point has no line,
    because its steps have theirs.
    """
    chain: list[Any] = []
    current: Any = plan
    while current is not None:
        if not isinstance(current, Point):
            chain.append(current)
        current = getattr(current, "input", None)
    for op in reversed(chain):
        if isinstance(op, reads.Rows) and not op.variables and not name:
            continue
        yield op, _INDENT * depth + _line(op, name)
        for inner in inner_patterns(op):
            yield from plan_lines(inner.pattern, depth + 1, inner.name)


@dataclass(frozen=True, slots=True)
class PlanOperator:
    """One operator of a plan, with what the planner expects and what a profile measured."""

    name: str
    details: str
    depth: int
    """1 and more inside of `not { … }`, `exists { … }` and `optional { … }`."""
    estimated_rows: int | None
    """Rows that the planner expects; of an inner operator for one row of its block."""
    reason: str
    """The access path that the operator uses; empty when there is nothing to say."""
    actual_rows: int | None = None
    seconds: float | None = None
    """Time of this operator without its inputs."""

    @property
    def line(self) -> str:
        return f"{_INDENT * self.depth}{self.name} {self.details}".rstrip()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, repr=False)
class QueryPlan:
    """The plan of a query, from `Graph.explain` or, with measures, from `Graph.profile`.

    `str()` is the text: one operator on each line.
    """

    query_name: str
    operators: tuple[PlanOperator, ...]
    seconds: float | None = None
    """Of a profile: the time of the whole run."""

    @property
    def estimated_rows(self) -> int | None:
        """Rows of the answer that the planner expects."""
        return self.operators[-1].estimated_rows

    @property
    def actual_rows(self) -> int | None:
        return self.operators[-1].actual_rows

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        return {
            "query_name": self.query_name,
            "operators": [operator.to_dict() for operator in self.operators],
            "total": {
                "estimated_rows": self.estimated_rows,
                "actual_rows": self.actual_rows,
                "seconds": self.seconds,
            },
            "plan": list(self._lines()),
        }

    def _lines(self) -> Iterator[str]:
        for op in self.operators:
            if op.actual_rows is not None and op.seconds is not None:
                yield f"{op.actual_rows:>12,} rows {op.seconds * 1000:>10.2f} ms  {op.line}"
            elif op.estimated_rows is None:
                yield op.line
            else:
                expected = f"~{op.estimated_rows:,} row{'s' if op.estimated_rows > 1 else ''}"
                yield f"{op.line}  -- {expected}{f': {op.reason}' if op.reason else ''}"


def explained(query_name: str, plan: PhysicalOp, statistics: Statistics) -> QueryPlan:
    """The plan with the expected rows of each operator and the access path it uses."""
    return QueryPlan(query_name, tuple(op for _, op in _operators(plan, statistics)))


def measured(
    query_name: str,
    plan: PhysicalOp,
    statistics: Statistics,
    measure_of: Callable[[PhysicalOp], OperatorMeasure],
    seconds: float,
) -> QueryPlan:
    """The plan with what each operator did in one run."""
    operators = []
    for op, shown in _operators(plan, statistics):
        measure = measure_of(op)
        operators.append(replace(shown, actual_rows=measure.rows, seconds=measure.seconds))
    return QueryPlan(query_name, tuple(operators), seconds)


@dataclass(slots=True)
class OperatorMeasure:
    """What one operator did, without its inputs."""

    rows: int = 0
    seconds: float = 0.0


def _operators(
    plan: PhysicalOp, statistics: Statistics
) -> Iterator[tuple[PhysicalOp, PlanOperator]]:
    rows = estimate_rows(plan, statistics) if statistics.may_be_told else {}
    lines = list(plan_lines(plan))
    limited = {id(op.input) for op, _ in lines if isinstance(op, reads.Limit)}
    for op, line in lines:
        text = line.lstrip()
        name, _, details = text.partition(" ")
        expected = rows.get(id(op))
        shown = PlanOperator(
            name=name,
            details=details,
            depth=(len(line) - len(text)) // len(_INDENT),
            estimated_rows=None if expected is None else max(1, round(expected)),
            reason="" if expected is None else _why(op, statistics, top=id(op) in limited),
        )
        yield op, shown


def _why(op: Any, statistics: Statistics, *, top: bool) -> str:
    match op:
        case Find(_, variable, LookUp(per_row=per_row)):
            how = "joined on the id" if per_row else "found by name"
            return f"{how}, of {statistics.rows_of(variable):,}{_cold(op)}"
        case Find(_, variable):
            return f"a pass over {statistics.rows_of(variable):,}{_cold(op)}"
        case reads.NodeScan(_, variable):
            return f"a pass over {statistics.rows_of(variable):,}"
        case reads.Expand() if not op.target_bound:
            return f"~{rows_reached(op, statistics):.2g} per row"
        case Follow(_, expand) if not expand.target_bound:
            return f"~{rows_reached(expand, statistics):.2g} per row, filtered before rows are made"
        case reads.OrderBy() if top:
            return "only the first are sorted, other columns are read after"
        case _:
            return ""


def _cold(op: Find) -> str:
    if op.cold is None:
        return ""
    return f"; while not in memory, {', '.join(op.cold.columns)} straight from storage"


def _line(op: Any, name: str) -> str:
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
        case Best(_, search):
            return f"{operator_text(search)} (the index may answer)"
        case Weigh(_, expand):
            return f"Count {operator_text(expand)} (edges are counted, not followed)"
        case WeighBetween(_, first, second):
            ways = f"{operator_text(first)}, {operator_text(second)}"
            return f"Count {ways} (nodes in between are counted, not followed)"
        case DistinctOn(_, variables):
            return f"DistinctOn {_numbers(variables)} (only the set matters above)"
        case Keep(_, variables):
            return f"Keep {_numbers(variables)}"
        case _:
            return operator_text(op, name)


def _typed(variable: Variable) -> str:
    return f"{variable_text(variable)}: {'|'.join(variable.types)}"


def _where(predicates: tuple[Expression, ...]) -> str:
    texts = [expression_text(predicate) for predicate in predicates]
    return f" where {' and '.join(texts)}" if texts else ""


def _numbers(variables: frozenset[int]) -> str:
    return ", ".join(f"#{v}" for v in sorted(variables)) or "nothing"

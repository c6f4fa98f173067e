"""Physical operators that the language does not have: how to do less for the same answer.

A physical plan is an IR tree in which these may stand wherever a read operator may.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from omnigraph.ir.expressions import Expression, PropertyOf, Variable
from omnigraph.ir.reads import Expand, ReadOp, Search


@dataclass(frozen=True, slots=True)
class LookUp:
    """Entities named by id or key instead of looked for: `property = wanted`, or `in wanted`."""

    property: str
    wanted: Expression
    several: bool
    """`wanted` is a list of values."""
    per_row: bool
    """`wanted` depends on the row: a join on the id."""


@dataclass(frozen=True, slots=True)
class ColdRead:
    """How a Find reads its rows straight from storage while the type is not in memory."""

    columns: tuple[str, ...]
    """All that anybody above asks of the variable."""
    conditions: tuple[tuple[PropertyOf, str, Expression], ...]
    """(property, operator, value): what storage can judge; every predicate is asked again."""


@dataclass(frozen=True, slots=True)
class Find:
    """A NodeScan with what is known about its variable alone: looked up, filtered on the way."""

    input: PhysicalOp
    variable: Variable
    look_up: LookUp | None
    where: tuple[Expression, ...]
    cold: ColdRead | None = None


@dataclass(frozen=True, slots=True)
class Follow:
    """An Expand whose edges and ends are judged before their rows are made."""

    input: PhysicalOp
    expand: Expand
    where_edge: tuple[Expression, ...]
    where_target: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Nearest:
    """A `nearest` of which only the best so many rows are wanted: an index may answer."""

    input: PhysicalOp
    search: Search


@dataclass(frozen=True, slots=True)
class Keep:
    """Forget every binding but these: nobody above asks for the others."""

    input: PhysicalOp
    variables: frozenset[int]


@dataclass(frozen=True, slots=True)
class Weigh:
    """Count the edges of an Expand instead of following them.

    Each row stands for as many as the Expand would make of it; rows without an edge go.
    """

    input: PhysicalOp
    expand: Expand


@dataclass(frozen=True, slots=True)
class DistinctOn:
    """Rows that differ in these variables: above, only the set matters."""

    input: PhysicalOp
    variables: frozenset[int]


PhysicalOp = ReadOp | Find | Follow | Nearest | Keep | Weigh | DistinctOn


def with_input(op: Any, new: PhysicalOp) -> Any:
    """The operator on another input."""
    return op if op.input is new else replace(op, input=new)

"""Physical operators: cheaper forms of read operators, which only the planner makes.

A physical plan is an IR tree in which these operators may replace read operators.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from omnigraph.ir.expressions import Expression, Variable
from omnigraph.ir.reads import Expand, ReadOp, Search


@dataclass(frozen=True, slots=True)
class LookUp:
    """Entities found by id or key instead of a scan: `property = wanted`, or `in wanted`."""

    property: str
    wanted: Expression
    several: bool
    """`wanted` is a list of values."""
    per_row: bool
    """`wanted` depends on the row: a join on the id."""


@dataclass(frozen=True, slots=True)
class ColdRead:
    """How a Find reads its rows from storage while the type is not in memory."""

    columns: tuple[str, ...]
    """All columns of the variable that operators above read."""
    predicates: tuple[Expression, ...]
    """Predicates of the Find that storage may test first; the executor tests all of them again."""


@dataclass(frozen=True, slots=True)
class Find:
    """A NodeScan with a lookup or with filters on its variable alone."""

    input: PhysicalOp
    variable: Variable
    look_up: LookUp | None
    where: tuple[Expression, ...]
    cold: ColdRead | None = None


@dataclass(frozen=True, slots=True)
class Follow:
    """An Expand that filters edges and targets before it makes their rows."""

    input: PhysicalOp
    expand: Expand
    where_edge: tuple[Expression, ...]
    where_target: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Best:
    """A ranking of which only the best rows are wanted, so that an index can answer it."""

    input: PhysicalOp
    search: Search


@dataclass(frozen=True, slots=True)
class Keep:
    """Drop all variables but these, because operators above do not read the others."""

    input: PhysicalOp
    variables: frozenset[int]


@dataclass(frozen=True, slots=True)
class Weigh:
    """Count the edges of an Expand instead of following them.

    Each row gets the number of rows that the Expand would make of it as its weight. A row without
    an edge is dropped.
    """

    input: PhysicalOp
    expand: Expand


@dataclass(frozen=True, slots=True)
class WeighBetween:
    """Count the nodes between two bound nodes instead of following edges to them.

    `first` leads to such a node, `second` from there to a node that is bound in the row. Each row
    gets the number of them as its weight.
    """

    input: PhysicalOp
    first: Expand
    second: Expand


@dataclass(frozen=True, slots=True)
class DistinctOn:
    """Drop rows that are equal in these variables, because duplicates do not matter above."""

    input: PhysicalOp
    variables: frozenset[int]


@dataclass(frozen=True, slots=True)
class Point:
    """The steps of the input begin at one entity that the query names, so they may run as one."""

    input: PhysicalOp


PhysicalOp = ReadOp | Find | Follow | Best | Keep | Weigh | WeighBetween | DistinctOn | Point


def with_input(op: Any, new: PhysicalOp) -> Any:
    """The same operator on another input."""
    return op if op.input is new else replace(op, input=new)

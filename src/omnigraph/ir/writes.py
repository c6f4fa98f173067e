"""Write statements of a mutation. They run in order, and each sees the effects of earlier ones."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.ir.expressions import Expression, Variable
from omnigraph.ir.reads import ReadOp
from omnigraph.values.identifiers import TableKey


@dataclass(frozen=True, slots=True)
class Assignment:
    """A stored column (also `src` and `dst`) and a value of exactly its type."""

    property: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Insert:
    """Insert one entity. A node with the same key is replaced, or kept with `skip_on_match`.

    `defaults` are properties that the statement leaves out and that have a `@default`. Those with
    a default that every write makes are `generated`. All other properties that it leaves out are
    NULL.
    """

    table: TableKey
    assignments: tuple[Assignment, ...]
    defaults: tuple[Assignment, ...] = ()
    skip_on_match: bool = False
    generated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Update:
    """Set properties of every row of the table for which the predicate is true."""

    table: TableKey
    assignments: tuple[Assignment, ...]
    predicate: Expression


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete every row for which the predicate is true; the edges of deleted nodes go too."""

    table: TableKey
    predicate: Expression


@dataclass(frozen=True, slots=True)
class DeleteMatched:
    """Delete every entity that one of these variables is bound to in any row of the pattern."""

    pattern: ReadOp
    variables: tuple[Variable, ...]


WriteOp = Insert | Update | Delete | DeleteMatched

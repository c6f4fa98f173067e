"""Write statements: what a mutation does, in order; later ones see earlier ones."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.ir.expressions import Expression, Variable
from omnigraph.ir.reads import ReadOp
from omnigraph.values.identifiers import TableKey


@dataclass(frozen=True, slots=True)
class Assignment:
    """A stored column (`src` and `dst` included) and the value of exactly its type."""

    property: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Insert:
    """One entity. Keyed nodes are replaced whole, or left alone with `skip_on_match`.

    `defaults` names properties left out that the schema gives a value; all others are NULL.
    """

    table: TableKey
    assignments: tuple[Assignment, ...]
    defaults: tuple[Assignment, ...] = ()
    skip_on_match: bool = False


@dataclass(frozen=True, slots=True)
class Update:
    """Set properties of every row of the table for which the predicate is true."""

    table: TableKey
    assignments: tuple[Assignment, ...]
    predicate: Expression


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete every row of the table for which the predicate is true; nodes take their edges."""

    table: TableKey
    predicate: Expression


@dataclass(frozen=True, slots=True)
class DeleteMatched:
    """Delete every entity these variables are bound to in any row of the pattern."""

    pattern: ReadOp
    variables: tuple[Variable, ...]


WriteOp = Insert | Update | Delete | DeleteMatched

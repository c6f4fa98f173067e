"""Typed expressions, which executors evaluate: every node has its type and nullability.

Every comparison, connective and function follows SQL's three-valued logic: an unknown operand
gives NULL, and a filter keeps a row only when its predicate is true.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from omnigraph.values.scalars import ScalarKind, ScalarType, ValueType


class VariableKind(StrEnum):
    """What a variable is bound to."""

    NODE = "node"
    EDGE = "edge"
    PATH = "path"


@dataclass(frozen=True, slots=True)
class Variable:
    """A node, edge or path that a pattern binds. Ids are unique in a plan, in order of appearance.

    `types` are the possible entity types: several for an interface or for several edge types.
    """

    id: int
    name: str
    kind: VariableKind
    types: tuple[str, ...]
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class WholeType:
    """Type of a `Whole`: a node or edge of one of these types."""

    kind: VariableKind
    types: tuple[str, ...]

    def __str__(self) -> str:
        return "|".join(self.types)


@dataclass(frozen=True, slots=True)
class PathType:
    """Type of a path: the alternating ids of its nodes and edges."""

    def __str__(self) -> str:
        return "Path"


@dataclass(frozen=True, slots=True)
class NullType:
    """Type of the literal `null`; it fits wherever NULL is allowed."""

    def __str__(self) -> str:
        return "null"


ExpressionType = ValueType | WholeType | PathType | NullType

BOOL = ScalarType(ScalarKind.BOOL)
STRING = ScalarType(ScalarKind.STRING)
I64 = ScalarType(ScalarKind.I64)
U64 = ScalarType(ScalarKind.U64)
F64 = ScalarType(ScalarKind.F64)
DATE = ScalarType(ScalarKind.DATE)
DATETIME = ScalarType(ScalarKind.DATETIME)


@dataclass(frozen=True, slots=True)
class Constant:
    """A Python value of exactly this type: str, int, float, bool, date, datetime, tuple, None."""

    value: Any
    type: ExpressionType
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class ParameterRef:
    """The value bound to a parameter, already coerced to its declared type."""

    name: str
    type: ExpressionType
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class PropertyOf:
    """A stored column (also `id`, `src`, `dst`) of the entity that a variable is bound to."""

    variable: Variable
    property: str
    type: ExpressionType
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class RowProperty:
    """A stored column of the row that an update or delete tests."""

    property: str
    type: ExpressionType
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Whole:
    """A node or edge as an object (`id` and all properties but blobs and vectors), or a path."""

    variable: Variable
    type: ExpressionType
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class TypeName:
    """`type($x)`: the name of the bound entity's own type."""

    variable: Variable
    type: ExpressionType = STRING
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column of the Project or Aggregate below this operator."""

    name: str
    type: ExpressionType
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class ScoreRef:
    """The score that a Search or Fuse below has written to this slot."""

    slot: str
    type: ExpressionType = F64
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`+ - * / %`; `+` on strings concatenates, `/` on integers truncates towards zero."""

    operator: str
    left: Expression
    right: Expression
    type: ExpressionType
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Negative:
    """`-x`."""

    operand: Expression
    type: ExpressionType
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Compare:
    """`= != < <= > >= contains starts_with`, operands already of comparable types.

    `contains` is membership when the left side is a list, else exact substring.
    """

    operator: str
    left: Expression
    right: Expression
    type: ExpressionType = BOOL
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class InList:
    """`operand in collection`; the collection has a list type."""

    operand: Expression
    collection: Expression
    type: ExpressionType = BOOL
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list that is built per row, because some items are not constants."""

    items: tuple[Expression, ...]
    type: ExpressionType
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """`operand is null`; the result is never NULL."""

    operand: Expression
    negated: bool = False
    type: ExpressionType = BOOL
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Not:
    """`not operand`."""

    operand: Expression
    type: ExpressionType = BOOL
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class And:
    """All operands."""

    operands: tuple[Expression, ...]
    type: ExpressionType = BOOL
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Or:
    """Any operand."""

    operands: tuple[Expression, ...]
    type: ExpressionType = BOOL
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class CaseWhen:
    """A branch of a `Case`."""

    condition: Expression
    value: Expression


@dataclass(frozen=True, slots=True)
class Case:
    """The value of the first branch whose condition is true, else `otherwise`.

    A condition is evaluated only for rows for which no earlier condition is true, and a value only
    for rows that take it. So a branch that is not taken does not fail. Executors convert the values
    to `type`.
    """

    branches: tuple[CaseWhen, ...]
    otherwise: Expression
    type: ExpressionType
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Matched:
    """Whether the pattern of this name matches the row; only in the predicate of an ExistsFilter.

    The result is never NULL.
    """

    pattern: str
    type: ExpressionType = BOOL
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Function:
    """A call of a scalar function; `length` of a path counts its edges."""

    name: str
    arguments: tuple[Expression, ...]
    type: ExpressionType
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Convert:
    """Conversion to another scalar type; a value that does not fit is an error, never a NULL."""

    operand: Expression
    type: ExpressionType
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class KeyText:
    """The id text of a key value, for endpoints that are given by their key."""

    operand: Expression
    type: ExpressionType = STRING
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class TextMatch:
    """`search` (any term), `fuzzy` (any term within `edits`), `match_text` (all terms)."""

    function: str
    field: PropertyOf | RowProperty | ColumnRef
    query: Expression
    edits: Expression | None = None
    """A constant or a parameter. Without it, or when NULL, the length of each term decides."""
    type: ExpressionType = BOOL
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate; only inside an Aggregate operator.

    `count` without an operand counts rows, with a `Whole` operand the rows where it is bound.
    """

    function: str
    operand: Expression | None
    distinct: bool
    type: ExpressionType
    nullable: bool = False


Expression = (
    Constant
    | ParameterRef
    | PropertyOf
    | RowProperty
    | Whole
    | TypeName
    | ColumnRef
    | ScoreRef
    | Arithmetic
    | Negative
    | Compare
    | InList
    | ListOf
    | IsNull
    | Not
    | And
    | Or
    | Case
    | Matched
    | Function
    | Convert
    | KeyText
    | TextMatch
    | AggregateCall
)

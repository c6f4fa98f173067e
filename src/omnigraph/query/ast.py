"""The syntax tree of the query language.

Names say what a node is: expressions end in `Expr`, clauses of a match block in `Clause`,
statements of a mutation in `Statement`, bodies of a query in `Body`. The typed operators and
expressions of `omnigraph.ir` have the plain names. Comparing two nodes ignores their spans.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from omnigraph.syntax.source_text import NO_SPAN, Name, Span
from omnigraph.values.scalars import LiteralValue

# --- expressions ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LiteralExpr:
    """A string, number, boolean or null."""

    value: LiteralValue
    span: Span = field(default=NO_SPAN, compare=False, repr=False)

    def __eq__(self, other: object) -> bool:
        # `1`, `1.0` and `true` are equal in Python and different here.
        return (
            isinstance(other, LiteralExpr)
            and type(self.value) is type(other.value)
            and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class VariableExpr:
    """`$x`: a parameter, or a variable that the match block binds."""

    name: str
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PropertyExpr:
    """`$x.name`."""

    variable: Name
    property: Name
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NameExpr:
    """A bare word: a result column, or a property of the row that a mutation tests."""

    name: str
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ListExpr:
    """`[a, b]`."""

    items: tuple[Expr, ...]
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CallExpr:
    """`name(arguments)`; `count(*)` has `star`, `rrf(…, k=60)` has an option."""

    function: str
    arguments: tuple[Expr, ...] = ()
    distinct: bool = False
    star: bool = False
    options: tuple[tuple[str, Expr], ...] = ()
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NegativeExpr:
    """`-x`."""

    operand: Expr
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ArithmeticExpr:
    """`left + right`, and the same for `- * / %`."""

    operator: str
    left: Expr
    right: Expr
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ComparisonExpr:
    """`= != < <= > >= contains starts_with in`."""

    operator: str
    left: Expr
    right: Expr
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NullTestExpr:
    """`x is null`, `x is not null`."""

    operand: Expr
    negated: bool = False
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NotExpr:
    """`not x`."""

    operand: Expr
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ConnectiveExpr:
    """`a and b and c` or `a or b or c`, as one node."""

    operator: str
    operands: tuple[Expr, ...]
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CaseBranch:
    """`when condition then value`."""

    condition: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class CaseExpr:
    """`case when a then b when c then d else e end`."""

    branches: tuple[CaseBranch, ...]
    otherwise: Expr | None = None
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ExistsExpr:
    """`exists { … }`."""

    clauses: tuple[Clause, ...]
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


Expr = (
    LiteralExpr
    | VariableExpr
    | PropertyExpr
    | NameExpr
    | ListExpr
    | CallExpr
    | NegativeExpr
    | ArithmeticExpr
    | ComparisonExpr
    | NullTestExpr
    | NotExpr
    | ConnectiveExpr
    | CaseExpr
    | ExistsExpr
)


# --- patterns ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PropertyValue:
    """`name: expression`, in a binding or an assignment."""

    name: Name
    value: Expr


@dataclass(frozen=True, slots=True)
class BindingClause:
    """`$p: Person { name: $name }`."""

    variable: Name
    type: Name
    matches: tuple[PropertyValue, ...] = ()
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Hops:
    """`{1,3}`; no maximum: up to the engine's limit."""

    minimum: int
    maximum: int | None
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class EdgePattern:
    """`knows`, `$w:knows`, `knows|likes{1,3}`, `<knows>`."""

    names: tuple[Name, ...]
    undirected: bool = False
    variable: Name | None = None
    hops: Hops | None = None
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TraversalClause:
    """`$a knows $b`, and with a path variable `$p = shortest $a knows{1,4} $b`."""

    source: Name
    edge: EdgePattern
    target: Name
    path: Name | None = None
    shortest: bool = False
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NegationClause:
    """`not { … }`."""

    clauses: tuple[Clause, ...]
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class OptionalClause:
    """`optional { … }`."""

    clauses: tuple[Clause, ...]
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class FilterClause:
    """An expression that must be true."""

    predicate: Expr
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


Clause = BindingClause | TraversalClause | NegationClause | OptionalClause | FilterClause


# --- queries -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Projection:
    """`expression as alias`."""

    value: Expr
    alias: Name | None = None
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Ordering:
    """`expression desc`; `descending` is None when no direction is written."""

    value: Expr
    descending: bool | None = None
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ReadBody:
    """`match … return … where … order … limit … offset`."""

    clauses: tuple[Clause, ...]
    projections: tuple[Projection, ...]
    distinct: bool = False
    having: Expr | None = None
    order: tuple[Ordering, ...] = ()
    limit: Expr | None = None
    offset: Expr | None = None
    match_span: Span = field(default=NO_SPAN, compare=False, repr=False)
    return_span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class InsertStatement:
    """`insert T { … } on match skip`."""

    type: Name
    assignments: tuple[PropertyValue, ...]
    skip_on_match: bool = False
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class UpdateStatement:
    """`update T set { … } where …`."""

    type: Name
    assignments: tuple[PropertyValue, ...]
    where: Expr
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DeleteStatement:
    """`delete T where …`."""

    type: Name
    where: Expr
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class MatchDeleteStatement:
    """`match { … } delete $x`."""

    clauses: tuple[Clause, ...]
    variables: tuple[Name, ...]
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


Statement = InsertStatement | UpdateStatement | DeleteStatement | MatchDeleteStatement


@dataclass(frozen=True, slots=True)
class MutationBody:
    """Statements that are committed together or not at all."""

    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class ParameterType:
    """The written type of a parameter."""

    base: str
    nullable: bool = False
    is_list: bool = False
    width: int | None = None
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Parameter:
    """`$name: String?`."""

    name: Name
    type: ParameterType


@dataclass(frozen=True, slots=True)
class QueryAnnotation:
    """`@description("…")`, or `@mcp(expose: false)` with settings instead of a text."""

    name: str
    text: str = ""
    settings: tuple[tuple[str, str | bool], ...] = ()
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Query:
    """One `query` declaration."""

    name: Name
    body: ReadBody | MutationBody
    parameters: tuple[Parameter, ...] = ()
    annotations: tuple[QueryAnnotation, ...] = ()
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class QueryFile:
    """All queries of a text."""

    queries: tuple[Query, ...] = ()

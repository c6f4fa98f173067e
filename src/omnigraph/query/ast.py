"""The syntax tree of the query language; spans never take part in comparison."""

from __future__ import annotations

from dataclasses import dataclass, field

from omnigraph.syntax.source_text import NO_SPAN, Span

LiteralValue = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier where it stands; variables come without their `$`."""

    text: str
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


# --- expressions ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Literal:
    """A string, number, boolean or null."""

    value: LiteralValue
    span: Span = field(default=NO_SPAN, compare=False, repr=False)

    def __eq__(self, other: object) -> bool:
        # `1`, `1.0` and `true` are equal in Python and different here.
        return (
            isinstance(other, Literal)
            and type(self.value) is type(other.value)
            and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class VariableRef:
    """`$x`: a parameter, or something the match block binds."""

    name: str
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PropertyRef:
    """`$x.name`."""

    variable: Name
    property: Name
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NameRef:
    """A bare word: a result column, or a property of the row a mutation looks at."""

    name: str
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ListExpression:
    """`[a, b]`."""

    items: tuple[Expression, ...]
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """`name(arguments)`; `count(*)` has `star`, `rrf(…, k=60)` has an option."""

    function: str
    arguments: tuple[Expression, ...] = ()
    distinct: bool = False
    star: bool = False
    options: tuple[tuple[str, Expression], ...] = ()
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Negative:
    """`-x`."""

    operand: Expression
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left + right` and its kin."""

    operator: str
    left: Expression
    right: Expression
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`= != < <= > >= contains starts_with in`."""

    operator: str
    left: Expression
    right: Expression
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NullTest:
    """`x is null`, `x is not null`."""

    operand: Expression
    negated: bool = False
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Not:
    """`not x`."""

    operand: Expression
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Connective:
    """`a and b and c` or `a or b or c`, as one node."""

    operator: str
    operands: tuple[Expression, ...]
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


Expression = (
    Literal
    | VariableRef
    | PropertyRef
    | NameRef
    | ListExpression
    | Call
    | Negative
    | Arithmetic
    | Comparison
    | NullTest
    | Not
    | Connective
)


# --- patterns ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PropertyValue:
    """`name: expression`, in a binding or an assignment."""

    name: Name
    value: Expression


@dataclass(frozen=True, slots=True)
class Binding:
    """`$p: Person { name: $name }`."""

    variable: Name
    type: Name
    matches: tuple[PropertyValue, ...] = ()
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Hops:
    """`{1,3}`; no maximum means "until the engine's ceiling"."""

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
class Traversal:
    """`$a knows $b`, and with a path variable `$p = shortest $a knows{1,4} $b`."""

    source: Name
    edge: EdgePattern
    target: Name
    path: Name | None = None
    shortest: bool = False
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Negation:
    """`not { … }`."""

    clauses: tuple[Clause, ...]
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class OptionalBlock:
    """`optional { … }`."""

    clauses: tuple[Clause, ...]
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Filter:
    """An expression that must be true."""

    predicate: Expression
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


Clause = Binding | Traversal | Negation | OptionalBlock | Filter


# --- queries -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Projection:
    """`expression as alias`."""

    value: Expression
    alias: Name | None = None
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Ordering:
    """`expression desc`; `descending` is None when no direction is written."""

    value: Expression
    descending: bool | None = None
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Read:
    """`match … return … where … order … limit … offset`."""

    clauses: tuple[Clause, ...]
    projections: tuple[Projection, ...]
    distinct: bool = False
    having: Expression | None = None
    order: tuple[Ordering, ...] = ()
    limit: Expression | None = None
    offset: Expression | None = None
    match_span: Span = field(default=NO_SPAN, compare=False, repr=False)
    return_span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Insert:
    """`insert T { … } on match skip`."""

    type: Name
    assignments: tuple[PropertyValue, ...]
    skip_on_match: bool = False
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Update:
    """`update T set { … } where …`."""

    type: Name
    assignments: tuple[PropertyValue, ...]
    where: Expression
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Delete:
    """`delete T where …`."""

    type: Name
    where: Expression
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class MatchDelete:
    """`match { … } delete $x`."""

    clauses: tuple[Clause, ...]
    variables: tuple[Name, ...]
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


Statement = Insert | Update | Delete | MatchDelete


@dataclass(frozen=True, slots=True)
class Mutation:
    """Statements that land in one commit or none."""

    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class TypeRef:
    """A parameter type as written."""

    base: str
    nullable: bool = False
    is_list: bool = False
    width: int | None = None
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Parameter:
    """`$name: String?`."""

    name: Name
    type: TypeRef


@dataclass(frozen=True, slots=True)
class Annotation:
    """`@description("…")`."""

    name: str
    text: str
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Query:
    """One `query` declaration."""

    name: Name
    body: Read | Mutation
    parameters: tuple[Parameter, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class QueryFile:
    """All queries of a text."""

    queries: tuple[Query, ...] = ()

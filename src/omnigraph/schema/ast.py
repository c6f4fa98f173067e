"""The syntax tree of the schema language.

Declarations end in `Decl`; the types and constraints that they become are in
`omnigraph.catalog.model`. Comparing two nodes ignores their spans.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from omnigraph.syntax.source_text import NO_SPAN, Name, Span
from omnigraph.values.scalars import LiteralValue


@dataclass(frozen=True, slots=True)
class RangeValue:
    """`0..150`, `0..` or `..150`."""

    minimum: int | float | str | None
    maximum: int | float | str | None


@dataclass(frozen=True, slots=True)
class NameValue:
    """A bare word as an argument: a property name, an enum value, the code of a step."""

    text: str


@dataclass(frozen=True, slots=True)
class CallValue:
    """`now()` or `uuid()`: a function without arguments."""

    function: str


ArgumentValue = LiteralValue | RangeValue | NameValue | CallValue


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an annotation, named when written `option=value`."""

    value: ArgumentValue
    option: str | None = None
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SchemaAnnotation:
    """`@name` or `@name(arguments)`; constraints are annotations too."""

    name: str
    arguments: tuple[Argument, ...] = ()
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PropertyType:
    """The written type of a property; enum values keep their order."""

    base: str
    nullable: bool = False
    is_list: bool = False
    width: int | None = None
    values: tuple[str, ...] = ()
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PropertyDecl:
    """`name: Type @annotation …`."""

    name: Name
    type: PropertyType
    annotations: tuple[SchemaAnnotation, ...] = ()
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


Member = PropertyDecl | SchemaAnnotation


@dataclass(frozen=True, slots=True)
class InterfaceDecl:
    """`interface Named { … }`."""

    name: Name
    members: tuple[Member, ...] = ()
    annotations: tuple[SchemaAnnotation, ...] = ()
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NodeDecl:
    """`node Person implements Named { … }`."""

    name: Name
    members: tuple[Member, ...] = ()
    implements: tuple[Name, ...] = ()
    annotations: tuple[SchemaAnnotation, ...] = ()
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class EdgeDecl:
    """`edge Knows: Person -> Person { … }`."""

    name: Name
    source: Name
    target: Name
    members: tuple[Member, ...] = ()
    annotations: tuple[SchemaAnnotation, ...] = ()
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


Declaration = InterfaceDecl | NodeDecl | EdgeDecl


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """All declarations of a schema, in the order of the text."""

    declarations: tuple[Declaration, ...] = ()

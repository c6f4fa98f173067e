"""The schema text of a catalog that has none, because Python code or a merge made it.

`property_text` and `declaration_text` print parts of a catalog, for messages and conflicts.
"""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.catalog.identity import carry_identities
from omnigraph.catalog.model import (
    Annotation,
    Cardinality,
    Catalog,
    Check,
    Constraint,
    EdgeType,
    EntityType,
    GeneratedDefault,
    Index,
    InterfaceType,
    Key,
    NodeType,
    Property,
    Range,
    Unique,
)
from omnigraph.errors import LanguageError
from omnigraph.schema import ast
from omnigraph.schema.build import catalog_from_text
from omnigraph.schema.format import format_schema
from omnigraph.syntax.source_text import Name
from omnigraph.values.scalars import (
    BlobType,
    EnumType,
    ListType,
    LiteralValue,
    ValueType,
    VectorType,
)

_NOT_NAMES = frozenset({"true", "false", "null"})


def catalog_text(catalog: Catalog) -> str:
    """The canonical text that builds exactly this catalog; empty when there is none.

    The language cannot express every catalog that Python code can make: names that it does not
    allow, or a type that has the properties of an interface in another order.
    """
    text = _written(catalog)
    try:
        understood = catalog_from_text(text)
    except LanguageError:
        return ""
    plain = carry_identities(catalog, catalog)
    return text if carry_identities(catalog, understood) == plain else ""


def visible_text(catalog: Catalog) -> str:
    """The text of the part of a schema that an actor sees; empty when the language has none.

    A type can have its properties in another order than in the text: an interface loses a property
    that one of its types hides, and the other types then have it after those of the interface.
    """
    return "" if text_problem(catalog) else _written(catalog)


def text_problem(catalog: Catalog) -> str | None:
    """Why the language refuses a catalog; None when it accepts it."""
    try:
        catalog_from_text(_written(catalog))
    except LanguageError as error:
        found = error.diagnostics[0] if error.diagnostics else {}
        return str(found.get("message", error.message))
    return None


def declaration_text(declared: EntityType | InterfaceType) -> str:
    """One type, with all of its properties."""
    if isinstance(declared, InterfaceType):
        tree: ast.Declaration = _interface(declared)
    else:
        tree = _node(declared, []) if isinstance(declared, NodeType) else _edge(declared)
    return format_schema(ast.SchemaFile((tree,))).strip()


def property_text(declared: Property, constraints: Iterable[Constraint] = ()) -> str:
    """One property, followed by the constraints about it."""
    beside = [
        ast.SchemaAnnotation(_constraint(c).name) if _subject(c) is not None else _constraint(c)
        for c in constraints
    ]
    written = format_schema(
        ast.SchemaFile((ast.NodeDecl(Name("P"), (_property(declared, beside),), (), ()),))
    )
    return written.strip().splitlines()[1].strip()


def _written(catalog: Catalog) -> str:
    interfaces = {interface.name: interface for interface in catalog.interfaces}
    declarations: list[ast.Declaration] = [_interface(i) for i in catalog.interfaces]
    declarations += [
        _node(node, [interfaces[name] for name in node.implements if name in interfaces])
        for node in catalog.nodes
    ]
    declarations += [_edge(edge) for edge in catalog.edges]
    return format_schema(ast.SchemaFile(tuple(declarations)))


def _interface(interface: InterfaceType) -> ast.InterfaceDecl:
    return ast.InterfaceDecl(
        Name(interface.name),
        _members(interface.properties, interface.constraints),
        _annotations(interface.annotations),
    )


def _node(node: NodeType, implemented: list[InterfaceType]) -> ast.NodeDecl:
    """The declaration without the properties and constraints that `implements` copies."""
    inherited: dict[str, Property] = {}
    for interface in implemented:
        for theirs in interface.properties:
            inherited.setdefault(theirs.name, theirs)
    given = {constraint for interface in implemented for constraint in interface.constraints}
    own = [p for p in node.properties if not _says_the_same(p, inherited.get(p.name))]
    return ast.NodeDecl(
        Name(node.name),
        _members(own, [c for c in node.constraints if c not in given]),
        tuple(Name(name) for name in node.implements),
        _annotations(node.annotations),
    )


def _says_the_same(declared: Property, inherited: Property | None) -> bool:
    return inherited is not None and (
        (declared.type, declared.nullable, declared.annotations)
        == (inherited.type, inherited.nullable, inherited.annotations)
    )


def _edge(edge: EdgeType) -> ast.EdgeDecl:
    cardinality = [_cardinality(edge.cardinality)] if edge.cardinality else []
    return ast.EdgeDecl(
        Name(edge.name),
        Name(edge.source),
        Name(edge.target),
        _members(edge.properties, edge.constraints),
        (*cardinality, *_annotations(edge.annotations)),
    )


def _cardinality(cardinality: Cardinality) -> ast.SchemaAnnotation:
    bounds = ast.RangeValue(cardinality.minimum, cardinality.maximum)
    return ast.SchemaAnnotation("card", (ast.Argument(bounds),))


def _members(
    properties: Iterable[Property], constraints: Iterable[Constraint]
) -> tuple[ast.Member, ...]:
    """Constraints are written after their property as long as that keeps their order."""
    declared = list(properties)
    position = {p.name: at for at, p in enumerate(declared)}
    beside: dict[str, list[ast.SchemaAnnotation]] = {p.name: [] for p in declared}
    below: list[ast.SchemaAnnotation] = []
    reached = 0
    for constraint in constraints:
        subject = _subject(constraint)
        if subject is None or below or position.get(subject, -1) < reached:
            below.append(_constraint(constraint))
            continue
        reached = position[subject]
        beside[subject].append(ast.SchemaAnnotation(_constraint(constraint).name))
    written = [_property(p, beside[p.name]) for p in declared]
    return (*written, *below)


def _subject(constraint: Constraint) -> str | None:
    """The property after which a constraint can be written."""
    match constraint:
        case Key((name,)) | Unique((name,)) | Index((name,), ()):
            return name
        case _:
            return None


def _property(declared: Property, constraints: list[ast.SchemaAnnotation]) -> ast.PropertyDecl:
    return ast.PropertyDecl(
        Name(declared.name),
        _type(declared.type, nullable=declared.nullable),
        (*constraints, *_annotations(declared.annotations)),
    )


def _type(value_type: ValueType, *, nullable: bool) -> ast.PropertyType:
    match value_type:
        case EnumType(values):
            return ast.PropertyType("enum", nullable, values=values)
        case VectorType(width):
            return ast.PropertyType("Vector", nullable, width=width)
        case ListType(element):
            return ast.PropertyType(element.value, nullable, is_list=True)
        case BlobType():
            return ast.PropertyType("Blob", nullable)
        case scalar:
            return ast.PropertyType(scalar.kind.value, nullable)


def _constraint(constraint: Constraint) -> ast.SchemaAnnotation:
    match constraint:
        case Key(properties):
            return _about("key", *properties)
        case Unique(properties):
            return _about("unique", *properties)
        case Index(properties, options):
            named = _about("index", *properties)
            given = tuple(ast.Argument(value, option) for option, value in options)
            return ast.SchemaAnnotation("index", (*named.arguments, *given))
        case Range(name, minimum, maximum):
            bounds = ast.Argument(ast.RangeValue(minimum, maximum))
            return ast.SchemaAnnotation("range", (*_about("range", name).arguments, bounds))
        case Check(name, pattern):
            arguments = (*_about("check", name).arguments, ast.Argument(pattern))
            return ast.SchemaAnnotation("check", arguments)


def _about(constraint: str, *properties: str) -> ast.SchemaAnnotation:
    """A constraint on these properties; a name that is a literal word must be quoted."""
    names = [name if name in _NOT_NAMES else ast.NameValue(name) for name in properties]
    return ast.SchemaAnnotation(constraint, tuple(ast.Argument(name) for name in names))


def _annotations(annotations: tuple[Annotation, ...]) -> tuple[ast.SchemaAnnotation, ...]:
    return tuple(
        ast.SchemaAnnotation(
            annotation.name,
            (
                *(ast.Argument(_value(value)) for value in annotation.arguments),
                *(ast.Argument(value, option) for option, value in annotation.options),
            ),
        )
        for annotation in annotations
    )


def _value(value: LiteralValue | GeneratedDefault) -> ast.ArgumentValue:
    return ast.CallValue(value.function) if isinstance(value, GeneratedDefault) else value

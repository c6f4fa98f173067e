"""From the schema syntax tree to the catalog.

Properties of interfaces are copied into the node types, and every reference is checked.
`build_constraints` builds the constraints, `build_annotations` the other annotations.
"""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.catalog.identity import with_identities
from omnigraph.catalog.model import (
    Catalog,
    Constraint,
    EdgeType,
    InterfaceType,
    Key,
    NodeType,
    Property,
)
from omnigraph.errors import TypeCheckError
from omnigraph.schema import ast, codes
from omnigraph.schema.build_annotations import (
    build_annotation,
    property_annotations,
    type_annotations,
)
from omnigraph.schema.build_constraints import Body, build_cardinality, build_constraints
from omnigraph.schema.parser import parse_schema
from omnigraph.syntax.diagnostics import Diagnostics, language_error
from omnigraph.syntax.source_text import Name, SourceText
from omnigraph.values.identifiers import RESERVED_PROPERTIES
from omnigraph.values.known_names import did_you_mean
from omnigraph.values.scalars import (
    MAX_VECTOR_WIDTH,
    BlobType,
    EnumType,
    ListType,
    ScalarKind,
    ScalarType,
    ValueType,
    VectorType,
)

_SCALARS = {kind.value: kind for kind in ScalarKind}

_TYPE_NAMES = [*_SCALARS, "Blob", "Vector", "enum"]

# `from` and `to` are the endpoints of an edge wherever its properties are written.
_ENDPOINT_WORDS = frozenset({"from", "to"})


def catalog_from_text(text: str, file: str = "<schema>") -> Catalog:
    """The catalog of a schema text, with identities.

    Raises `ParseError` or `TypeCheckError` with all diagnostics.
    """
    source = SourceText(text, file)
    return build_catalog(parse_schema(source), source)


def build_catalog(schema: ast.SchemaFile, source: SourceText) -> Catalog:
    found = Diagnostics()
    _check_names(schema, found)
    interfaces = {
        d.name.text: _interface(d, found)
        for d in schema.declarations
        if isinstance(d, ast.InterfaceDecl)
    }
    nodes = [
        _node(d, interfaces, found) for d in schema.declarations if isinstance(d, ast.NodeDecl)
    ]
    node_names = {node.name for node in nodes}
    edges = [
        _edge(d, node_names, found) for d in schema.declarations if isinstance(d, ast.EdgeDecl)
    ]
    if found:
        raise language_error(TypeCheckError, found, source)
    return with_identities(Catalog(tuple(nodes), tuple(edges), tuple(interfaces.values())))


def _check_names(schema: ast.SchemaFile, found: Diagnostics) -> None:
    seen: set[str] = set()
    edges: set[str] = set()
    for declaration in schema.declarations:
        name = declaration.name
        folded = name.text.casefold()
        clash = name.text in seen
        if isinstance(declaration, ast.EdgeDecl):
            clash = clash or folded in edges
            edges.add(folded)
        if clash:
            found.error(
                codes.DUPLICATE_TYPE,
                f"'{name.text}' is declared twice",
                name.span,
                "edge names match case-insensitively" if name.text not in seen else None,
            )
        seen.add(name.text)


def _interface(declared: ast.InterfaceDecl, found: Diagnostics) -> InterfaceType:
    name = declared.name.text
    own = [p for p, _ in build_properties(declared.members, on_edge=False, found=found)]
    properties = {p.name: p for p in own}
    constraints = build_constraints(declared.members, Body(name, properties, on_edge=False), found)
    _check_embed(declared.members, properties, name, found)
    return InterfaceType(
        name, tuple(own), constraints, type_annotations(declared.annotations, found)
    )


def _node(
    declared: ast.NodeDecl, interfaces: dict[str, InterfaceType], found: Diagnostics
) -> NodeType:
    name = declared.name.text
    implemented = _implemented(declared, interfaces, found)
    inherited = _inherited(declared, implemented, found)
    own = _own_properties(declared, inherited, found)
    properties = inherited | own
    body = Body(name, properties, on_edge=False)
    constraints = _with_inherited(build_constraints(declared.members, body, found), implemented)
    _check_single_key(declared, constraints, found)
    _check_embed(declared.members, properties, name, found)
    return NodeType(
        name,
        tuple(properties.values()),
        constraints,
        tuple(i.name for i in implemented),
        type_annotations(declared.annotations, found),
    )


def _edge(declared: ast.EdgeDecl, node_names: set[str], found: Diagnostics) -> EdgeType:
    name = declared.name.text
    for end in (declared.source, declared.target):
        if end.text not in node_names:
            found.error(
                codes.UNKNOWN_TYPE,
                f"there is no node type '{end.text}'",
                end.span,
                did_you_mean(end.text, node_names),
            )
    own = [p for p, _ in build_properties(declared.members, on_edge=True, found=found)]
    properties = {p.name: p for p in own}
    constraints = build_constraints(declared.members, Body(name, properties, on_edge=True), found)
    _check_single_key(declared, constraints, found)
    _check_embed(declared.members, properties, name, found)
    return EdgeType(
        name,
        declared.source.text,
        declared.target.text,
        tuple(own),
        constraints,
        build_cardinality(declared.annotations, found),
        type_annotations(declared.annotations, found, on_edge=True),
    )


def _own_properties(
    declared: ast.NodeDecl, inherited: dict[str, Property], found: Diagnostics
) -> dict[str, Property]:
    own: dict[str, Property] = {}
    for built, decl in build_properties(declared.members, on_edge=False, found=found):
        theirs = inherited.get(built.name)
        if theirs and (theirs.type, theirs.nullable) != (built.type, built.nullable):
            found.error(
                codes.INTERFACE_CONFLICT,
                f"the interface declares '{built.name}: {_spell(theirs)}'",
                decl.span,
                "leave it out, `implements` copies it",
            )
            continue
        own[built.name] = built
    return own


def _implemented(
    declared: ast.NodeDecl, interfaces: dict[str, InterfaceType], found: Diagnostics
) -> list[InterfaceType]:
    implemented: list[InterfaceType] = []
    for name in declared.implements:
        interface = interfaces.get(name.text)
        if interface is None:
            found.error(
                codes.UNKNOWN_TYPE,
                f"there is no interface '{name.text}'",
                name.span,
                did_you_mean(name.text, interfaces),
            )
        elif interface in implemented:
            found.error(codes.DUPLICATE_TYPE, f"'{name.text}' is implemented twice", name.span)
        else:
            implemented.append(interface)
    return implemented


def _inherited(
    declared: ast.NodeDecl, implemented: list[InterfaceType], found: Diagnostics
) -> dict[str, Property]:
    merged: dict[str, Property] = {}
    for interface in implemented:
        for theirs in interface.properties:
            known = merged.setdefault(theirs.name, theirs)
            if (known.type, known.nullable) != (theirs.type, theirs.nullable):
                found.error(
                    codes.INTERFACE_CONFLICT,
                    f"two interfaces disagree: '{theirs.name}: {_spell(known)}' and "
                    f"'{theirs.name}: {_spell(theirs)}'",
                    declared.name.span,
                )
    return merged


def _with_inherited(
    own: tuple[Constraint, ...], implemented: list[InterfaceType]
) -> tuple[Constraint, ...]:
    inherited = [c for interface in implemented for c in interface.constraints]
    return tuple(dict.fromkeys([*inherited, *own]))


def _check_single_key(
    declared: ast.NodeDecl | ast.EdgeDecl, constraints: tuple[Constraint, ...], found: Diagnostics
) -> None:
    if sum(isinstance(c, Key) for c in constraints) > 1:
        found.error(
            codes.DUPLICATE_CONSTRAINT,
            f"{declared.name.text} has two keys",
            declared.name.span,
            "a key of several properties is written `@key(a, b)`",
        )


def _check_embed(
    members: Iterable[ast.Member], properties: dict[str, Property], owner: str, found: Diagnostics
) -> None:
    for member in members:
        if not isinstance(member, ast.PropertyDecl):
            continue
        for annotation in member.annotations:
            if annotation.name == "embed":
                _check_embed_source(annotation, properties, owner, found)


def _check_embed_source(
    annotation: ast.SchemaAnnotation,
    properties: dict[str, Property],
    owner: str,
    found: Diagnostics,
) -> None:
    built = build_annotation(annotation)
    if len(built.arguments) != 1 or not isinstance(built.arguments[0], str):
        found.error(
            codes.BAD_ARGUMENTS,
            "@embed takes the property to embed",
            annotation.span,
            'write `@embed("bio", model="…")`',
        )
        return
    name = built.arguments[0]
    subject = properties.get(name)
    if subject is None:
        found.error(
            codes.UNKNOWN_PROPERTY,
            f"{owner} has no property '{name}'",
            annotation.span,
            did_you_mean(name, properties),
        )
    elif subject.type != ScalarType(ScalarKind.STRING):
        found.error(
            codes.NOT_ELIGIBLE,
            f"@embed reads a String, '{name}' is {subject.type}",
            annotation.span,
        )


def _spell(declared: Property) -> str:
    return f"{declared.type}{'?' if declared.nullable else ''}"


def build_properties(
    members: tuple[ast.Member, ...], on_edge: bool, found: Diagnostics
) -> list[tuple[Property, ast.PropertyDecl]]:
    """The properties of a body, each with its declaration for later messages."""
    built: dict[str, tuple[Property, ast.PropertyDecl]] = {}
    for member in members:
        if not isinstance(member, ast.PropertyDecl):
            continue
        name = member.name.text
        if name in built:
            found.error(codes.DUPLICATE_PROPERTY, f"'{name}' is declared twice", member.name.span)
            continue
        _check_name(member.name, on_edge, found)
        value_type = resolve_type(member.type, found)
        if value_type is not None:
            built[name] = (_build_property(member, value_type, found), member)
    return list(built.values())


def _check_name(name: Name, on_edge: bool, found: Diagnostics) -> None:
    reserved = RESERVED_PROPERTIES | (_ENDPOINT_WORDS if on_edge else frozenset())
    if name.text in reserved or name.text.startswith("__"):
        found.error(
            codes.RESERVED_NAME,
            f"'{name.text}' is reserved",
            name.span,
            "the engine uses id, src, dst, from and to itself"
            if not name.text.startswith("_")
            else "the engine uses names that start with '_row' or '__'",
        )


def resolve_type(ref: ast.PropertyType, found: Diagnostics) -> ValueType | None:
    if ref.values:
        return _enum(ref, found)
    if ref.width is not None:
        return _vector(ref, found)
    if ref.base == "Blob" and not ref.is_list:
        return BlobType()
    if ref.base == "Vector":
        found.error(codes.BAD_TYPE, "a vector needs its width", ref.span, "write `Vector(256)`")
        return None
    kind = _SCALARS.get(ref.base)
    if kind is None:
        found.error(
            codes.UNKNOWN_TYPE if ref.base != "Blob" else codes.BAD_TYPE,
            f"there is no property type '{ref.base}'"
            if ref.base != "Blob"
            else "a list holds scalars, not blobs",
            ref.span,
            did_you_mean(ref.base, _TYPE_NAMES) if ref.base != "Blob" else None,
        )
        return None
    return ListType(kind) if ref.is_list else ScalarType(kind)


def _enum(ref: ast.PropertyType, found: Diagnostics) -> ValueType | None:
    twice = sorted({value for value in ref.values if ref.values.count(value) > 1})
    if twice:
        found.error(codes.BAD_TYPE, f"enum value '{twice[0]}' is listed twice", ref.span)
        return None
    return EnumType(ref.values)


def _vector(ref: ast.PropertyType, found: Diagnostics) -> ValueType | None:
    width = ref.width or 0
    if not 1 <= width <= MAX_VECTOR_WIDTH:
        found.error(
            codes.BAD_TYPE,
            f"a vector has 1 to {MAX_VECTOR_WIDTH} dimensions, not {width}",
            ref.span,
        )
        return None
    return VectorType(width)


def _build_property(
    declared: ast.PropertyDecl, value_type: ValueType, found: Diagnostics
) -> Property:
    return Property(
        declared.name.text,
        value_type,
        declared.type.nullable,
        annotations=property_annotations(declared, value_type, found),
    )

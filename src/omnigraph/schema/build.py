"""Schema syntax tree -> catalog: interfaces copied in, every reference checked."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.catalog.identity import with_identities
from omnigraph.catalog.model import (
    Annotation,
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
from omnigraph.schema.build_constraints import Body, build_cardinality, build_constraints
from omnigraph.schema.build_properties import build_annotation, build_properties, check_one_text
from omnigraph.schema.parser import parse_schema
from omnigraph.syntax.diagnostics import Findings, language_error
from omnigraph.syntax.span import SourceText
from omnigraph.values.known_names import did_you_mean
from omnigraph.values.scalars import ScalarKind, ScalarType


def catalog_from_text(text: str, file: str = "<schema>") -> Catalog:
    """The catalog a schema text describes, identities assigned.

    Raises `ParseError` or `TypeCheckError` with every finding.
    """
    source = SourceText(text, file)
    return build_catalog(parse_schema(source), source)


def build_catalog(schema: ast.SchemaFile, source: SourceText) -> Catalog:
    found = Findings()
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


def _check_names(schema: ast.SchemaFile, found: Findings) -> None:
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


def _interface(declared: ast.InterfaceDecl, found: Findings) -> InterfaceType:
    name = declared.name.text
    own = [p for p, _ in build_properties(declared.members, on_edge=False, found=found)]
    properties = {p.name: p for p in own}
    constraints = build_constraints(declared.members, Body(name, properties, on_edge=False), found)
    _check_embed(declared.members, properties, name, found)
    return InterfaceType(
        name, tuple(own), constraints, _type_annotations(declared.annotations, found)
    )


def _node(
    declared: ast.NodeDecl, interfaces: dict[str, InterfaceType], found: Findings
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
        _type_annotations(declared.annotations, found),
    )


def _own_properties(
    declared: ast.NodeDecl, inherited: dict[str, Property], found: Findings
) -> dict[str, Property]:
    own: dict[str, Property] = {}
    for built, decl in build_properties(declared.members, on_edge=False, found=found):
        theirs = inherited.get(built.name)
        if theirs and (theirs.type, theirs.nullable) != (built.type, built.nullable):
            found.error(
                codes.INTERFACE_CONFLICT,
                f"the interface says '{built.name}: {_spell(theirs)}'",
                decl.span,
                "leave it out, `implements` copies it",
            )
            continue
        own[built.name] = built
    return own


def _edge(declared: ast.EdgeDecl, node_names: set[str], found: Findings) -> EdgeType:
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
    _check_embed(declared.members, properties, name, found)
    return EdgeType(
        name,
        declared.source.text,
        declared.target.text,
        tuple(own),
        build_constraints(declared.members, Body(name, properties, on_edge=True), found),
        build_cardinality(declared.annotations, found),
        _type_annotations(declared.annotations, found, on_edge=True),
    )


def _implemented(
    declared: ast.NodeDecl, interfaces: dict[str, InterfaceType], found: Findings
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
    declared: ast.NodeDecl, implemented: list[InterfaceType], found: Findings
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
    declared: ast.NodeDecl, constraints: tuple[Constraint, ...], found: Findings
) -> None:
    if sum(isinstance(c, Key) for c in constraints) > 1:
        found.error(
            codes.DUPLICATE_CONSTRAINT,
            f"{declared.name.text} has two keys",
            declared.name.span,
            "a key of several properties is written `@key(a, b)`",
        )


def _check_embed(
    members: Iterable[ast.Member], properties: dict[str, Property], owner: str, found: Findings
) -> None:
    for member in members:
        if not isinstance(member, ast.PropertyDecl):
            continue
        for annotation in member.annotations:
            if annotation.name == "embed":
                _check_embed_source(annotation, properties, owner, found)


def _check_embed_source(
    annotation: ast.Annotation, properties: dict[str, Property], owner: str, found: Findings
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


def _type_annotations(
    annotations: tuple[ast.Annotation, ...], found: Findings, on_edge: bool = False
) -> tuple[Annotation, ...]:
    kept = []
    for annotation in annotations:
        if annotation.name == "card":
            if not on_edge:
                found.error(codes.MISPLACED, "@card is for edges", annotation.span)
            continue
        if annotation.name in ("description", "instruction", "rename_from"):
            check_one_text(annotation, found)
        elif annotation.name in ("key", "unique", "index", "range", "check", "default", "embed"):
            found.error(
                codes.MISPLACED,
                f"@{annotation.name} belongs into the body of a type",
                annotation.span,
            )
            continue
        kept.append(build_annotation(annotation))
    return tuple(kept)


def _spell(declared: Property) -> str:
    return f"{declared.type}{'?' if declared.nullable else ''}"

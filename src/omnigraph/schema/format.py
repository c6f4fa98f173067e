"""The canonical text of a schema syntax tree; parsing it gives the same tree."""

from __future__ import annotations

from omnigraph.schema.ast import (
    Argument,
    CallValue,
    Declaration,
    EdgeDecl,
    InterfaceDecl,
    Member,
    NameValue,
    NodeDecl,
    PropertyDecl,
    PropertyType,
    RangeValue,
    SchemaAnnotation,
    SchemaFile,
)
from omnigraph.syntax.layout import FormattedLine, find_comments, write_lines
from omnigraph.syntax.source_text import SourceText, write_literal


def format_schema(schema: SchemaFile, source: SourceText | None = None) -> str:
    """Canonical text; with the source it was parsed from, comments are kept."""
    lines: list[FormattedLine] = []
    for declaration in schema.declarations:
        if lines:
            lines.append(FormattedLine("", lines[-1].start))
        lines += _declaration(declaration)
    return write_lines(lines, find_comments(source) if source else ())


def _declaration(declaration: Declaration) -> list[FormattedLine]:
    header, start = _header(declaration), declaration.span.start
    body = [FormattedLine(_member(member), member.span.start, 1) for member in declaration.members]
    if not body:
        return [
            FormattedLine(header if isinstance(declaration, EdgeDecl) else header + " {}", start)
        ]
    closing = FormattedLine("}", max(declaration.span.end - 1, 0), closes=True)
    return [FormattedLine(header + " {", start), *body, closing]


def _header(declaration: Declaration) -> str:
    annotations = _annotations(declaration.annotations)
    match declaration:
        case InterfaceDecl():
            return f"interface {declaration.name.text}{annotations}"
        case NodeDecl():
            names = ", ".join(name.text for name in declaration.implements)
            implements = f" implements {names}" if names else ""
            return f"node {declaration.name.text}{implements}{annotations}"
        case EdgeDecl():
            ends = f"{declaration.source.text} -> {declaration.target.text}"
            return f"edge {declaration.name.text}: {ends}{annotations}"


def _member(member: Member) -> str:
    if isinstance(member, PropertyDecl):
        annotations = _annotations(member.annotations)
        return f"{member.name.text}: {format_type(member.type)}{annotations}"
    return format_annotation(member)


def format_type(type_ref: PropertyType) -> str:
    optional = "?" if type_ref.nullable else ""
    if type_ref.values:
        return f"enum({', '.join(type_ref.values)}){optional}"
    if type_ref.width is not None:
        return f"Vector({type_ref.width}){optional}"
    return f"[{type_ref.base}]{optional}" if type_ref.is_list else f"{type_ref.base}{optional}"


def _annotations(annotations: tuple[SchemaAnnotation, ...]) -> str:
    return "".join(" " + format_annotation(annotation) for annotation in annotations)


def format_annotation(annotation: SchemaAnnotation) -> str:
    if not annotation.arguments:
        return f"@{annotation.name}"
    return f"@{annotation.name}({', '.join(_argument(a) for a in annotation.arguments)})"


def _argument(argument: Argument) -> str:
    prefix = f"{argument.option}=" if argument.option else ""
    match argument.value:
        case RangeValue(minimum, maximum):
            low = "" if minimum is None else write_literal(minimum)
            high = "" if maximum is None else write_literal(maximum)
            return f"{prefix}{low}..{high}"
        case NameValue(text):
            return prefix + text
        case CallValue(function):
            return f"{prefix}{function}()"
        case literal:
            return prefix + write_literal(literal)

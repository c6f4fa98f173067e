"""From schema text to the schema syntax tree."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from lark import Token, Transformer, v_args
from lark.tree import Meta

from omnigraph.errors import ParseError
from omnigraph.schema import codes
from omnigraph.schema.ast import (
    Argument,
    ArgumentValue,
    CallValue,
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
from omnigraph.syntax.diagnostics import Diagnostic, language_error
from omnigraph.syntax.grammar import Grammar, GrammarSpec, misspelt_keyword
from omnigraph.syntax.source_text import (
    Name,
    SourceText,
    Span,
    float_value,
    integer_value,
    string_value,
)

_TERMINAL_NAMES = {
    "TYPE_NAME": "a type name",
    "NAME": "a name",
    "DASHED": "a word with dashes",
    "PROPERTY": "a property",
    "ENUM_VALUE": "an enum value",
    "CONSTRAINT": "a constraint",
    "ANNOTATION": "an annotation",
    "INTEGER": "an integer",
    "FLOAT": "a number",
    "STRING": "a string",
    "VECTOR": "'Vector('",
    "NULLABLE": "'?'",
    "TRUE": "'true'",
    "FALSE": "'false'",
    "NULL": "'null'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "'['",
    "RSQB": "']'",
    "COLON": "':'",
    "COMMA": "','",
    "EQUAL": "'='",
    "__ANON_0": "'->'",
    "__ANON_1": "'..'",
    "INTERFACE": "'interface'",
    "NODE": "'node'",
    "EDGE": "'edge'",
    "IMPLEMENTS": "'implements'",
    "ENUM": "'enum('",
    "$END": "the end of the text",
}

_GROUPS = (
    (frozenset({"TYPE_NAME", "VECTOR", "ENUM", "LSQB"}), "a type"),
    (
        frozenset({"INTEGER", "FLOAT", "STRING", "TRUE", "FALSE", "NULL", "NAME", "DASHED"}),
        "a value",
    ),
    (frozenset({"INTERFACE", "NODE", "EDGE"}), "'interface', 'node' or 'edge'"),
)


def parse_schema(source: SourceText) -> SchemaFile:
    """The syntax tree of a text; raises `ParseError` with all syntax errors."""
    parsed = _grammar().parse(source)
    if parsed.tree is None:
        raise language_error(ParseError, parsed.diagnostics, source)
    reader = _SchemaTreeReader()
    schema: SchemaFile = reader.transform(parsed.tree)
    if reader.problems:
        raise language_error(ParseError, reader.problems, source)
    return schema


@cache
def _grammar() -> Grammar:
    return Grammar(
        GrammarSpec(
            path=Path(__file__).with_name("schema.lark"),
            parse_code=codes.SYNTAX,
            terminal_names=_TERMINAL_NAMES,
            groups=_GROUPS,
            restart=re.compile(r"^[ \t]*(?:interface|node|edge)\b(?=[ \t]+\w)", re.MULTILINE),
            find_help=_find_help,
        )
    )


# An expected terminal, the text from the error on -> the help.
_SITUATIONS = (
    ("", r"'", "strings are written in double quotes"),
    ("", r"#", "comments start with //"),
    ("", r";", "declarations need no separator"),
    ("", r"=>", "an edge is written `edge Knows: Person -> Person`"),
    ("", r"@\s*[A-Z]", "annotations are written in lower case"),
    ("IMPLEMENTS", r"extends\b|:", "write `node Person implements Named`"),
    ("NULLABLE", r"!", "properties are required unless their type ends in `?`"),
    ("NULLABLE", r"=", "a default is written `@default(…)`"),
    ("RSQB", r"\?", "elements of a list are never null"),
    ("ENUM_VALUE", r'"', "enum values are written without quotes"),
    ("DASHED", r"[A-Z]", "a word that starts with an upper-case letter is written in quotes"),
    ("TYPE_NAME", r"\[", "a list holds scalars"),
    ("TYPE_NAME", r"[a-z_]", "type names start with an upper-case letter"),
    ("PROPERTY", r"[A-Z]\w*\s*:", "property names start with a lower-case letter"),
    ("PROPERTY", r"[a-z_]\w*", "a property is written `name: Type`"),
)


_OPEN_CALL = re.compile(r"[(,=]\s*[a-z_][A-Za-z0-9_]*\s*\(\s*$")


def _find_help(before: str, rest: str, expected: frozenset[str]) -> str | None:
    if expected == {"RPAR"} and _OPEN_CALL.search(before):
        return "a function in an annotation takes no arguments"
    for needed, ahead, help_text in _SITUATIONS:
        if (not needed or needed in expected) and re.match(ahead, rest):
            return help_text
    return misspelt_keyword(rest, expected)


def _span(meta: Meta) -> Span:
    return Span(meta.start_pos, meta.end_pos)


def _token_span(token: Token) -> Span:
    start = token.start_pos or 0
    return Span(start, start + len(token))


def _name(token: Token) -> Name:
    return Name(str(token), _token_span(token))


@v_args(meta=True)
class _SchemaTreeReader(Transformer[Token, Any]):
    """Works bottom-up: the children of a rule are syntax nodes already. They are untyped here."""

    def __init__(self) -> None:
        super().__init__()
        self.problems: list[Diagnostic] = []

    def start(self, _meta: Meta, children: list[Any]) -> SchemaFile:
        return SchemaFile(tuple(children))

    def interface(self, meta: Meta, children: list[Any]) -> InterfaceDecl:
        name, *rest = children
        annotations, members = _split(rest)
        return InterfaceDecl(_name(name), members, annotations, _span(meta))

    def node(self, meta: Meta, children: list[Any]) -> NodeDecl:
        name, *rest = children
        implements = next((c for c in rest if isinstance(c, _Implements)), _Implements())
        annotations, members = _split([c for c in rest if not isinstance(c, _Implements)])
        return NodeDecl(_name(name), members, tuple(implements), annotations, _span(meta))

    def edge(self, meta: Meta, children: list[Any]) -> EdgeDecl:
        name, source, target, *rest = children
        annotations, members = _split(rest)
        return EdgeDecl(
            _name(name), _name(source), _name(target), members, annotations, _span(meta)
        )

    def implements(self, _meta: Meta, children: list[Token]) -> _Implements:
        return _Implements(_name(token) for token in children)

    def property_decl(self, meta: Meta, children: list[Any]) -> PropertyDecl:
        name, type_ref, *annotations = children
        return PropertyDecl(_name(name), type_ref, tuple(annotations), _span(meta))

    def constraint(self, meta: Meta, children: list[Any]) -> _BodyConstraint:
        name, *arguments = children
        return _BodyConstraint(SchemaAnnotation(name[1:], tuple(arguments), _span(meta)))

    def annotation(self, meta: Meta, children: list[Any]) -> SchemaAnnotation:
        name, *arguments = children
        return SchemaAnnotation(name[1:], tuple(arguments), _span(meta))

    def type_ref(self, meta: Meta, children: list[Any]) -> PropertyType:
        core: PropertyType = children[0]
        return PropertyType(
            core.base, len(children) > 1, core.is_list, core.width, core.values, _span(meta)
        )

    def scalar(self, _meta: Meta, children: list[Token]) -> PropertyType:
        return PropertyType(str(children[0]))

    def list_type(self, _meta: Meta, children: list[Token]) -> PropertyType:
        return PropertyType(str(children[0]), is_list=True)

    def vector(self, meta: Meta, children: list[Token]) -> PropertyType:
        return PropertyType("Vector", width=self._integer(children[1], meta))

    def enum(self, _meta: Meta, children: list[Token]) -> PropertyType:
        return PropertyType("enum", values=tuple(str(child) for child in children))

    def argument(self, meta: Meta, children: list[Any]) -> Argument:
        *option, value = children
        return Argument(value, str(option[0]) if option else None, _span(meta))

    def closed_or_right_open(self, meta: Meta, children: list[Token]) -> RangeValue:
        bounds = [self._bound(child, meta) for child in children]
        return RangeValue(bounds[0], bounds[1] if len(bounds) > 1 else None)

    def left_open(self, meta: Meta, children: list[Token]) -> RangeValue:
        return RangeValue(None, self._bound(children[0], meta))

    def call(self, _meta: Meta, children: list[Token]) -> CallValue:
        return CallValue(str(children[0]))

    def literal(self, meta: Meta, children: list[Token]) -> ArgumentValue:
        token = children[0]
        match token.type:
            case "TRUE":
                return True
            case "FALSE":
                return False
            case "NULL":
                return None
            case "NAME" | "DASHED":
                return NameValue(str(token))
            case _:
                return self._bound(token, meta)

    def _bound(self, token: Token, meta: Meta) -> int | float | str:
        match token.type:
            case "STRING":
                return string_value(token)
            case "FLOAT":
                return self._float(token, meta)
            case _:
                return self._integer(token, meta)

    def _integer(self, token: Token, meta: Meta) -> int:
        value = integer_value(token)
        if value is None:
            self._too_large(meta)
            return 0
        return value

    def _float(self, token: Token, meta: Meta) -> float:
        value = float_value(token)
        if value is None:
            self._too_large(meta)
            return 0.0
        return value

    def _too_large(self, meta: Meta) -> None:
        self.problems.append(Diagnostic(codes.SYNTAX, "this number is too large", _span(meta)))


class _Implements(tuple[Name, ...]):
    """Marks the `implements` list among a node's children."""


class _BodyConstraint:
    """Marks a body-level constraint among a type's children."""

    def __init__(self, annotation: SchemaAnnotation) -> None:
        self.annotation = annotation


def _split(children: list[Any]) -> tuple[tuple[SchemaAnnotation, ...], tuple[Member, ...]]:
    """Annotations of the type itself, and the members of its body."""
    annotations = tuple(c for c in children if isinstance(c, SchemaAnnotation))
    members = tuple(
        c.annotation if isinstance(c, _BodyConstraint) else c
        for c in children
        if isinstance(c, (_BodyConstraint, PropertyDecl))
    )
    return annotations, members

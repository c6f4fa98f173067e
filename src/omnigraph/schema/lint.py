"""Warnings about schemas that build but probably do not say what is meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from omnigraph.schema import ast
from omnigraph.syntax.diagnostics import Diagnostics

MISSPELT_ANNOTATION = "L101"
UNKNOWN_ANNOTATION = "OG-NM-101"

MEANINGS = {
    MISSPELT_ANNOTATION: "an annotation without meaning, spelled almost like one that has",
    UNKNOWN_ANNOTATION: "an annotation that has no meaning here",
}

_KNOWN = [
    "key",
    "unique",
    "index",
    "range",
    "check",
    "card",
    "embed",
    "default",
    "rename_from",
    "rename_value",
    "protected",
    "allow",
    "description",
    "instruction",
]


def lint_schema(schema: ast.SchemaFile) -> Diagnostics:
    found = Diagnostics()
    for annotation in _annotations(schema):
        if annotation.name in _KNOWN:
            continue
        close = difflib.get_close_matches(annotation.name, _KNOWN, n=1, cutoff=0.75)
        found.warning(
            MISSPELT_ANNOTATION if close else UNKNOWN_ANNOTATION,
            f"@{annotation.name} has no meaning here, it is only kept",
            annotation.span,
            f"did you mean '@{close[0]}'?" if close else None,
        )
    return found


def _annotations(schema: ast.SchemaFile) -> Iterator[ast.SchemaAnnotation]:
    for declaration in schema.declarations:
        yield from declaration.annotations
        for member in declaration.members:
            if isinstance(member, ast.PropertyDecl):
                yield from member.annotations

"""Warnings about schemas that build but probably do not say what is meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum

from omnigraph.errors import InvalidArgument
from omnigraph.schema import ast
from omnigraph.syntax.diagnostics import Diagnostic, Diagnostics, Severity
from omnigraph.values.known_names import did_you_mean

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


class LintLevel(StrEnum):
    """What a finding of a code is."""

    ERROR = "error"
    WARN = "warn"
    OFF = "off"


def read_levels(settings: Iterable[str]) -> dict[str, LintLevel]:
    """`OG-NM-101=off` and the like; raises `InvalidArgument` for anything else."""
    found: dict[str, LintLevel] = {}
    for text in settings:
        code, equals, level = (part.strip() for part in text.partition("="))
        if not equals or level not in set(LintLevel):
            levels = ", ".join(LintLevel)
            raise InvalidArgument(
                f"{text!r} is not CODE=LEVEL, such as {UNKNOWN_ANNOTATION}=off; levels: {levels}"
            )
        if code not in MEANINGS:
            hint = did_you_mean(code, MEANINGS)
            raise InvalidArgument(f"no code {code!r} of a schema warning; {hint}")
        found[code] = LintLevel(level)
    return found


def lint_schema(
    schema: ast.SchemaFile, levels: Mapping[str, LintLevel] | None = None
) -> Diagnostics:
    """The findings as warnings; `levels` makes errors of those of a code, or leaves them out."""
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
    return Diagnostics(_at_levels(found, levels or {}))


def _at_levels(found: Diagnostics, levels: Mapping[str, LintLevel]) -> Iterator[Diagnostic]:
    for finding in found:
        level = levels.get(finding.code, LintLevel.WARN)
        if level is LintLevel.ERROR:
            yield replace(finding, severity=Severity.ERROR)
        elif level is LintLevel.WARN:
            yield finding


def _annotations(schema: ast.SchemaFile) -> Iterator[ast.SchemaAnnotation]:
    for declaration in schema.declarations:
        yield from declaration.annotations
        for member in declaration.members:
            if isinstance(member, ast.PropertyDecl):
                yield from member.annotations

"""Diagnostics of a text: code, span, message and help, rendered with a caret under the span."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from omnigraph.errors import LanguageError
from omnigraph.syntax.source_text import SourceText, Span

# A diagnostic must stay readable when the offending line is a megabyte long.
_WINDOW = 140
_MAX_DIAGNOSTICS = 50
_MAX_MESSAGE = 600


class Severity(StrEnum):
    """Errors stop a compilation, warnings do not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error or warning. `help` says what to do about it."""

    code: str
    message: str
    span: Span
    help: str | None = None
    severity: Severity = Severity.ERROR


class Diagnostics(list[Diagnostic]):
    """The diagnostics of a pass so far. A pass continues after an error to find more."""

    def error(self, code: str, message: str, span: Span, help: str | None = None) -> None:
        self.append(Diagnostic(code, message, span, help))

    def warning(self, code: str, message: str, span: Span, help: str | None = None) -> None:
        self.append(Diagnostic(code, message, span, help, Severity.WARNING))

    @property
    def has_errors(self) -> bool:
        return any(diagnostic.severity is Severity.ERROR for diagnostic in self)


def render(diagnostic: Diagnostic, source: SourceText) -> str:
    """`file:line:column: error CODE: message`, the line, the caret, the help."""
    line, column = source.position(diagnostic.span.start)
    number = str(line)
    gutter = " " * len(number)
    shown, start, width = _visible_part(
        source.line_at(diagnostic.span.start), column - 1, diagnostic.span
    )
    text = "".join(_printable(c) for c in shown)
    indent = sum(_cells(c) for c in shown[:start])
    carets = max(1, sum(_cells(c) for c in shown[start : start + width]))
    out = [
        f"{source.file}:{line}:{column}: {diagnostic.severity} {diagnostic.code}: "
        f"{printable_text(diagnostic.message)}",
        f"  {number} | {text}".rstrip(),
        f"  {gutter} | {' ' * indent}{'^' * carets}",
    ]
    if diagnostic.help:
        out.append(f"  {gutter} = help: {printable_text(diagnostic.help)}")
    return "\n".join(out)


def render_all(diagnostics: Sequence[Diagnostic], source: SourceText) -> str:
    return "\n\n".join(render(diagnostic, source) for diagnostic in diagnostics)


def diagnostic_to_json(diagnostic: Diagnostic, source: SourceText) -> dict[str, Any]:
    line, column = source.position(diagnostic.span.start)
    end_line, end_column = source.position(diagnostic.span.end)
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity.value,
        "message": printable_text(diagnostic.message),
        "help": None if diagnostic.help is None else printable_text(diagnostic.help),
        "file": source.file,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
    }


def language_error(
    kind: type[LanguageError], diagnostics: Iterable[Diagnostic], source: SourceText
) -> LanguageError:
    """The exception for these diagnostics, in the order of the text and without duplicates."""
    ordered = in_text_order(diagnostics)[:_MAX_DIAGNOSTICS]
    return kind(
        render_all(ordered, source),
        diagnostics=[diagnostic_to_json(diagnostic, source) for diagnostic in ordered],
    )


def in_text_order(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    unique = dict.fromkeys(diagnostics)
    return sorted(unique, key=lambda d: (d.span.start, d.span.end, d.code))


def printable_text(text: str) -> str:
    """The text shortened, with control characters replaced, for terminals and JSON."""
    shown = text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]}…"
    return "".join(c if c == "\n" else _printable(c) for c in shown)


def _visible_part(line: str, offset: int, span: Span) -> tuple[str, int, int]:
    width = min(span.end - span.start, len(line) - offset)
    if len(line) <= _WINDOW:
        return line, offset, width
    left = max(0, offset - _WINDOW // 2)
    shown = line[left : left + _WINDOW]
    prefix = "…" if left else ""
    suffix = "…" if left + _WINDOW < len(line) else ""
    start = offset - left
    return prefix + shown + suffix, start + len(prefix), min(width, len(shown) - start)


def _printable(character: str) -> str:
    if character == "\t":
        return " "
    return character if character.isprintable() else "�"


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1

"""What both languages share about their text: spans, names, comments and literals."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from omnigraph.errors import InvalidArgument, NotFound

STRINGS_AND_COMMENTS = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)'
"""Matches one string or comment. An unclosed one reaches to the end of the text, because trying
again after each of them would take quadratic time."""

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_WRITTEN = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0", '"': '\\"', "\\": "\\\\"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_MUST_ESCAPE = re.compile(r'[\n\t\r\0"\\]')
# The widest integer type has 20 digits; a longer number is refused without converting it.
_MAX_INTEGER_DIGITS = 20


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range of character offsets."""

    start: int
    end: int


NO_SPAN = Span(0, 0)


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier and its place in the text; a variable's name comes without the `$`."""

    text: str
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text and the name of its file, as diagnostics show it."""

    text: str
    file: str

    def position(self, offset: int) -> tuple[int, int]:
        """1-based line and column of a character offset."""
        line = self.text.count("\n", 0, offset) + 1
        return line, offset - self._line_start(offset) + 1

    def line_at(self, offset: int) -> str:
        """The line around an offset, without its line break."""
        end = self.text.find("\n", offset)
        line = self.text[self._line_start(offset) : len(self.text) if end == -1 else end]
        return line.rstrip("\r")

    def _line_start(self, offset: int) -> int:
        return self.text.rfind("\n", 0, offset) + 1


def read_source_file(path: str | os.PathLike[str]) -> SourceText:
    """The text of a file, without a byte order mark."""
    name = os.fspath(path)
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise NotFound(f"there is no file {name}", file=name) from None
    except OSError as error:
        raise InvalidArgument(f"cannot read {name}: {error.strerror}", file=name) from None
    return SourceText(decoded(data, name), name)


def decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidArgument(
            f"{name}:{line}: the text is not UTF-8 at byte {error.start}", file=name, line=line
        ) from None


def string_value(token: str) -> str:
    """The text between the quotes. An unknown escape means the escaped character itself."""
    return _ESCAPE.sub(lambda m: _ESCAPES.get(m.group(1), m.group(1)), token[1:-1])


def write_string(value: str) -> str:
    return '"' + _MUST_ESCAPE.sub(lambda m: _WRITTEN[m.group()], value) + '"'


def integer_value(token: str) -> int | None:
    """The integer of a token; None when no integer type can hold it."""
    return int(token) if len(token.lstrip("-0")) <= _MAX_INTEGER_DIGITS else None


def float_value(token: str) -> float | None:
    """The number of a token; None when it is not finite."""
    value = float(token)
    return value if math.isfinite(value) else None


def write_float(value: float) -> str:
    text = repr(value)
    return text if "." in text or "e" in text else f"{text}.0"


def write_literal(value: str | int | float | bool | None) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return write_float(value)
        case str():
            return write_string(value)

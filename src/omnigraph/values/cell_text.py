"""A value as one line of text, for tables of the command line and of Python."""

from __future__ import annotations

from typing import Any

from omnigraph.values.json_values import json_text

NULL = "NULL"
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def cell_text(value: Any) -> str:
    """A value in one line; NULL, an empty string and the string NULL look different."""
    match value:
        case None:
            return NULL
        case "":
            return '""'
        case str():
            return f'"{value}"' if value == NULL else visible(value)
        case bool() | dict() | list() | tuple():
            return visible(json_text(value))
        case int() | float():
            return str(value)
        case _:
            return visible(json_text(value).strip('"'))


def visible(text: str) -> str:
    """Escape control characters, because data must not control a terminal or break a line."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _ESCAPES.get(c, _escape(c)) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")

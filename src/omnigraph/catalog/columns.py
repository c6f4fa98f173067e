"""System columns every table has, beside the properties of its type."""

from __future__ import annotations

ID = "id"
SOURCE = "src"
TARGET = "dst"

_SPELLED = {SOURCE: "from", TARGET: "to"}


def spelled(column: str) -> str:
    """A column as users write it: `src` and `dst` are reserved, so they are always the ends."""
    return _SPELLED.get(column, column)

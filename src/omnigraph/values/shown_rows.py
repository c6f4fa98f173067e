"""A result as Python shows it: a small table of text, or of HTML in a notebook."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph.values.cell_text import cell_text, visible

SHOWN_ROWS = 10
_GAP = "  "
_WIDEST_CELL = 60
_NARROWEST_CELL = 6
_CUT = "…"


@dataclass(frozen=True, slots=True)
class ShownRows:
    """The first rows of a result."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    row_count: int | None
    """Of the whole result; None when the query has not run yet."""

    def text(self, width: int) -> str:
        """Lines of at most `width` characters; columns that do not fit are left out."""
        lines = [self._count()]
        cells = [[visible(name) for name in self.columns]]
        cells += [[cell_text(value) for value in row] for row in self.rows]
        widths = _fitted(cells, width)
        for line in cells:
            parts = [_padded(cell, room) for cell, room in zip(line, widths, strict=False)]
            left_out = [_CUT] if len(widths) < len(self.columns) else []
            lines.append(_GAP.join([*parts, *left_out]).rstrip())
        rule = _GAP.join("-" * room for room in widths)
        lines.insert(2, rule)
        if self.row_count is not None and self.row_count > len(self.rows):
            lines.append(_CUT)
        return "\n".join(lines)

    def html(self) -> str:
        def row(tag: str, texts: Sequence[str]) -> str:
            cells = "".join(f"<{tag}>{html.escape(_cut(t, _WIDEST_CELL))}</{tag}>" for t in texts)
            return f"<tr>{cells}</tr>"

        head = row("th", [visible(name) for name in self.columns])
        body = "".join(row("td", [cell_text(value) for value in line]) for line in self.rows)
        count = html.escape(self._count())
        return (
            f"<table><caption>{count}</caption><thead>{head}</thead><tbody>{body}</tbody></table>"
        )

    def _count(self) -> str:
        if self.row_count is None:
            return f"{self.title}: not run yet"
        rows = f"{self.row_count:,} row{'' if self.row_count == 1 else 's'}"
        more = self.row_count > len(self.rows)
        return f"{self.title}: {rows}" + (f", the first {len(self.rows)}:" if more else "")


def _fitted(cells: Sequence[Sequence[str]], width: int) -> list[int]:
    """The widths of the columns that fit, from the left."""
    widths: list[int] = []
    used = 0
    columns = len(cells[0])
    for column in range(columns):
        wanted = min(_WIDEST_CELL, max(_cells(line[column]) for line in cells))
        mark = len(_GAP) + len(_CUT) if column < columns - 1 else 0
        room = width - used - mark
        if widths and room < min(wanted, _NARROWEST_CELL):
            break
        widths.append(max(1, min(wanted, room)))
        used += widths[-1] + len(_GAP)
    return widths


def _padded(text: str, width: int) -> str:
    short = _cut(text, width)
    return short + " " * (width - _cells(short))


def _cut(text: str, width: int) -> str:
    if _cells(text) <= width:
        return text
    kept = ""
    for character in text:
        if _cells(kept + character) > width - 1:
            break
        kept += character
    return kept + _CUT


def _cells(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(_character_cells(character) for character in text)


def _character_cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1

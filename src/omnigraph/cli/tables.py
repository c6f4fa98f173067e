"""Print rows: a rich table on a terminal, aligned plain text everywhere else."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from textwrap import TextWrapper
from typing import TYPE_CHECKING, Any, Literal

from omnigraph.cli.output import print_result
from omnigraph.values.cell_text import NULL, cell_text, visible
from omnigraph.values.temporal import write_micros

if TYPE_CHECKING:
    from omnigraph.settings.config_file import TableLook

CELL_LIMIT = 240
_GAP = 3
_LONGEST_WORD, _HEADER = 32, 12  # longer ones are folded


def moment_text(micros: int) -> str:
    """RFC 3339; `-` for 0, which is the creation time of the main branch."""
    return write_micros(micros) if micros else "-"


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], look: TableLook | None = None
) -> bool:
    """Print rows under their column names; True when a value had to be cut."""
    cells = [[cell_text(value) for value in row] for row in rows]
    limit = CELL_LIMIT if look is None else look.max_column_width
    wrap = look is not None and look.cell_layout == "wrap"
    cut = not wrap and any(len(text) > limit for row in cells for text in row)
    shown = [[_cut(text, limit) for text in row] for row in cells] if cut else cells
    headers = [visible(name) for name in columns]
    numeric = [
        bool(cells) and all(_is_number(row[i]) for row in cells) for i in range(len(headers))
    ]
    if not sys.stdout.isatty():
        _print_plain(headers, shown, numeric, limit)
        return cut
    narrowest = _narrowest(headers, shown)
    room = shutil.get_terminal_size().columns - _GAP * (len(headers) - 1)
    if sum(narrowest) > room:
        print_records(headers, shown)
    else:
        widest = [min(width, limit) for width in _widest(headers, shown)]
        _print_rich(headers, shown, numeric, _fitted(widest, narrowest, room))
    return cut


def _narrowest(headers: list[str], rows: list[list[str]]) -> list[int]:
    """The least width of each column: ids and times stay whole, so that they can be copied."""
    from rich.cells import cell_len

    def longest_word(column: int) -> int:
        texts = [headers[column][:_HEADER], *(row[column] for row in rows)]
        return max((cell_len(word) for text in texts for word in text.split()), default=1)

    return [min(longest_word(column), _LONGEST_WORD) for column in range(len(headers))]


def _widest(headers: list[str], rows: list[list[str]]) -> list[int]:
    from rich.cells import cell_len

    lines = [headers, *rows]
    return [max(cell_len(line[column]) for line in lines) for column in range(len(headers))]


def _fitted(widest: list[int], narrowest: list[int], room: int) -> list[int]:
    """Widths that use the room: columns grow together from their narrowest to their widest."""
    widths = [min(pair) for pair in zip(widest, narrowest, strict=True)]
    spare = room - sum(widths)
    while spare > 0 and (growing := [i for i, w in enumerate(widths) if w < widest[i]]):
        for column in growing[:spare]:
            widths[column] += 1
        spare -= len(growing)
    return widths


def print_records(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """One `column  value` line each, a blank line between rows."""
    from rich.cells import cell_len

    width = max((cell_len(name) for name in columns), default=0)
    for number, row in enumerate(rows):
        if number:
            print_result("\n")
        for name, text in zip(columns, row, strict=True):
            print_result(folded(f"{name}{' ' * (width - cell_len(name))}  {text}", width + 2))


def folded(text: str, indent: int) -> str:
    """On a terminal, break lines between words and indent them; words stay whole, for copying."""
    columns = shutil.get_terminal_size().columns
    if not sys.stdout.isatty() or len(text) <= columns or columns < 2 * indent:
        return text
    fold = TextWrapper(
        columns,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )
    return fold.fill(text)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _is_number(text: str) -> bool:
    return text == NULL or (text.lstrip("-")[:1].isdigit() and _parses(text))


def _parses(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _print_plain(
    headers: list[str], rows: list[list[str]], numeric: list[bool], limit: int
) -> None:
    """A value that is longer than the limit goes on in the next line of its column."""
    from rich.cells import cell_len

    lines = [line for row in rows for line in _wrapped(row, limit)]
    widths = [max(cell_len(line[i]) for line in [headers, *lines]) for i in range(len(headers))]
    rule = ["-" * width for width in widths]
    for line in [headers, rule, *lines]:
        parts = []
        for text, width, right in zip(line, widths, numeric, strict=True):
            gap = " " * (width - cell_len(text))
            parts.append(gap + text if right else text + gap)
        print_result("  ".join(parts).rstrip() + "\n")


def _wrapped(row: list[str], limit: int) -> list[list[str]]:
    if all(len(text) <= limit for text in row):
        return [row]
    pieces = [[text[at : at + limit] for at in range(0, len(text), limit)] for text in row]
    return [list(line) for line in zip_longest(*pieces, fillvalue="")]


def _print_rich(
    headers: list[str], rows: list[list[str]], numeric: list[bool], widths: list[int]
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name, right, width in zip(headers, numeric, widths, strict=True):
        side: Literal["right", "left"] = "right" if right else "left"
        table.add_column(Text(name), justify=side, overflow="fold", width=width)
    for row in rows:
        table.add_row(*(Text(text, style="dim" if text == NULL else "") for text in row))
    Console().print(table)

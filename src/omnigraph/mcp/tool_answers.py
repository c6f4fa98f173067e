"""What a tool answers: a JSON body, and a short text that says the same.

Both are sized for a context window. What is left out is counted, and the answer says how to ask for
it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph.execute.answer_formats import answer_heading
from omnigraph.execute.query_types import QueryResult
from omnigraph.values.cell_text import cell_text
from omnigraph.values.json_values import finite, json_form, json_value
from omnigraph.values.plurals import counted

Json = dict[str, Any]

ROWS, MOST_ROWS = 50, 1000
"""Rows of one answer: by default, and at most."""
MOST_BYTES = 96 * 1024
"""The JSON of the rows of one answer."""
MOST_TEXT = 12 * 1024
"""Characters of the text beside the JSON."""
_WIDEST_CELL = 240


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The result of one call."""

    body: Json
    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class FittingRows:
    """The first rows that fit, and whether rows are missing."""

    rows: list[Json]
    is_cut: bool


def fitting(rows: Sequence[Mapping[str, Any]], most_rows: int, total: int) -> FittingRows:
    """The first rows within the limits; at least one, however large."""
    kept: list[Json] = []
    size = 0
    for row in rows[:most_rows]:
        plain = finite(json_value(dict(row)))
        size += len(json.dumps(plain, default=json_form))
        if kept and size > MOST_BYTES:
            break
        kept.append(plain)
    return FittingRows(kept, len(kept) < total)


def rows_answer(result: QueryResult, most_rows: int, rest: str) -> ToolAnswer:
    """The answer of `/query`. `rest` says how to ask for rows that were left out."""
    total = len(result)
    found = fitting(result[: most_rows + 1], most_rows, total)
    body: Json = {**answer_heading(result), "rows": found.rows}
    lines = [table_text(result.columns, found.rows)]
    count = counted(total, "row")
    if found.is_cut:
        shown = len(found.rows)
        told = f"{shown} of {count}. {rest.format(shown=shown)}"
        body["truncated"] = {"shown": shown, "row_count": total, "next": told}
        count = told
    lines.append(f"({count} at commit {result.graph_commit_id})")
    return ToolAnswer(body, "\n".join(lines))


def table_text(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """A header and one line for each row, with ` | ` between cells."""
    lines = [" | ".join(columns)]
    room = MOST_TEXT - len(lines[0])
    for number, row in enumerate(rows):
        line = " | ".join(_cell(row.get(name)) for name in columns)
        room -= len(line) + 1
        if room < 0 and number:
            lines.append(f"… {counted(len(rows) - number, 'more row')} in the JSON")
            break
        lines.append(line)
    return "\n".join(lines)


def _cell(value: Any) -> str:
    text = cell_text(value)
    return text if len(text) <= _WIDEST_CELL else f"{text[:_WIDEST_CELL]}…"


def cut_text(text: str, most: int = MOST_TEXT) -> str:
    """The text, or its beginning with the number of characters that are missing."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n… {len(text) - most:,} more characters"

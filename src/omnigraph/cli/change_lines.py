"""Changes of entities for people: one line each, `+` new, `~` changed, `-` gone."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from omnigraph.cli.colours import GREEN, RED, YELLOW, Paint, painter, plain
from omnigraph.cli.output import print_json, print_result
from omnigraph.cli.session import Session
from omnigraph.cli.tables import CELL_LIMIT, cell_text, folded

if TYPE_CHECKING:
    from omnigraph.diff.change import Change, ChangePage

_SIGNS = {"insert": ("+", GREEN), "update": ("~", YELLOW), "delete": ("-", RED)}
_READABLE = 8  # a longer list of floats is a vector: nobody reads it


def print_changes(session: Session, page: ChangePage, head: dict[str, Any]) -> None:
    """The changes of two states, with what the answer is about in front."""
    if session.json:
        print_json({**head, **page.to_dict()})
        return
    paint = painter(sys.stdout)
    for change in page:
        print_result(folded(change_line(change, paint), 4))
    counts = {op: sum(change.op == op for change in page) for op in _SIGNS}
    session.note(", ".join(f"{number} {op}" for op, number in counts.items()))
    if page.next_cursor is not None:
        session.note(f"there is more: --cursor {page.next_cursor}")


def change_line(change: Change, paint: Paint = plain) -> str:
    sign, colour = _SIGNS[change.op]
    name = paint(colour, f"{sign} {change.type.name} {cell_text(change.id)}")
    return f"{name}  {_details(change)}"


def _details(change: Change) -> str:
    before, after = change.before or {}, change.after or {}
    if change.op == "update":
        parts = [
            f"{n}: {short_text(before.get(n))} -> {short_text(after.get(n))}"
            for n in change.changed_properties
        ]
    else:
        image = after or before
        parts = [f"{n}: {short_text(v)}" for n, v in image.items() if n != "id" and v is not None]
    return ", ".join(parts)


def short_text(value: Any) -> str:
    """A value that does not push the rest off the line."""
    if isinstance(value, list) and len(value) > _READABLE and isinstance(value[0], float):
        return f"[{len(value)} numbers]"
    text = cell_text(value)
    limit = CELL_LIMIT // 4
    return text if len(text) <= limit else f"{text[: limit - 1]}…"

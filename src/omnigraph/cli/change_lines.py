"""Print changes of entities, one line each (`+` new, `~` changed, `-` gone), and conflicts."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from omnigraph.cli.output import (
    GREEN,
    MAGENTA,
    RED,
    YELLOW,
    Paint,
    painter,
    plain,
    print_json,
    print_result,
)
from omnigraph.cli.session import Session
from omnigraph.cli.tables import CELL_LIMIT, folded
from omnigraph.values.cell_text import cell_text
from omnigraph.values.plurals import counted

if TYPE_CHECKING:
    from omnigraph.diff.change import Change, ChangePage
    from omnigraph.merge.conflicts import Conflict


_SIGNS = {"insert": ("+", GREEN), "update": ("~", YELLOW), "delete": ("-", RED)}
_READABLE = 8  # a longer list of floats is a vector, of which only the length is shown


def print_changes(session: Session, page: ChangePage, head: dict[str, Any]) -> None:
    """Print a page of changes; `head` says in JSON what is compared."""
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
    """A value, cut so that the line stays readable."""
    if isinstance(value, list) and len(value) > _READABLE and isinstance(value[0], float):
        return f"[{len(value)} numbers]"
    text = cell_text(value)
    limit = CELL_LIMIT // 4
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


CONFLICTS_SHOWN = 20
_WHOLE = {"DivergentInsert", "DeleteVsUpdate"}


def conflict_lines(
    conflicts: Sequence[Conflict],
    source: str,
    target: str,
    paint: Paint,
    limit: int | None = None,
) -> Iterator[str]:
    """How many conflicts of each kind; then, by entity, the value of each branch."""
    kinds = Counter(conflict.kind for conflict in conflicts)
    yield "  " + ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    shown = islice(conflicts, limit)
    for (type_name, entity_id), found in groupby(shown, lambda c: (c.type_name, c.entity_id)):
        yield f"{type_name} {short_text(entity_id)}" if entity_id else f"{type_name} (schema)"
        for conflict in found:
            what, said = _said(conflict, source, target, paint)
            yield f"  {paint(RED, '!')} {paint(RED, conflict.kind)}  {what}"
            yield from (f"      {line}" for line in said)


def way_out(total: int, limit: int) -> Iterator[str]:
    if total > limit:
        yield f"… and {counted(total - limit, 'more conflict')} (--preview or --json shows them)"
    yield (
        "decide all with --strategy ours (the target wins) or theirs (the source wins), or one by "
        "one with --resolutions FILE"
    )


def _said(conflict: Conflict, source: str, target: str, paint: Paint) -> tuple[str, Iterable[str]]:
    """What is in conflict, and a line with the value of each side."""
    if conflict.kind == "DivergentUpdate":
        sides = ((target, GREEN, conflict.ours), (source, MAGENTA, conflict.theirs))
        values = [f"{paint(colour, name)}: {short_text(value)}" for name, colour, value in sides]
        return f"{conflict.property}, was {short_text(conflict.base)}", values
    if conflict.kind == "SchemaDivergence":
        said = conflict.message.removeprefix(conflict.type_name).lstrip(".")
        return said.removeprefix(": "), _declarations(conflict, source, target, paint)
    if conflict.kind not in _WHOLE:
        return conflict.message.split(": ", 1)[-1], ()
    what = {
        "DivergentInsert": "both added it, with different values",
        "DeleteVsUpdate": "one deleted it, the other changed it",
    }[conflict.kind]
    before = conflict.base or {}
    return what, [
        f"{paint(GREEN, target)}: {_image(conflict.ours, before, conflict.theirs)}",
        f"{paint(MAGENTA, source)}: {_image(conflict.theirs, before, conflict.ours)}",
    ]


def _declarations(conflict: Conflict, source: str, target: str, paint: Paint) -> Iterator[str]:
    """The declaration of each side."""
    for name, colour, text in ((target, GREEN, conflict.ours), (source, MAGENTA, conflict.theirs)):
        lines = ["not there"] if text is None else text.splitlines()
        yield f"{paint(colour, name)}: {lines[0]}"
        yield from lines[1:]


def _image(image: dict[str, Any] | None, base: dict[str, Any], other: dict[str, Any] | None) -> str:
    """What differs: from the base if the other side deleted the entity, else from that side."""
    if image is None:
        return "deleted"
    against = base if other is None else other
    return ", ".join(
        f"{name}: {short_text(value)}"
        for name, value in image.items()
        if value != against.get(name)
    )

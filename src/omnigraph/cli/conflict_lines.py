"""Conflicts of a merge for people: how many of which kind, then entity by entity what both say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from omnigraph.cli.change_lines import short_text
from omnigraph.cli.colours import GREEN, MAGENTA, RED, Paint
from omnigraph.cli.output import counted

if TYPE_CHECKING:
    from omnigraph.merge.conflicts import Conflict

CONFLICTS_SHOWN = 20
_WHOLE = {"DivergentInsert", "DeleteVsUpdate"}


def conflict_lines(
    conflicts: Sequence[Conflict], names: tuple[str, str], paint: Paint, limit: int | None = None
) -> Iterator[str]:
    """`names` are source and target; every line names the branch a value is from."""
    kinds = Counter(conflict.kind for conflict in conflicts)
    yield "  " + ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    shown = islice(conflicts, limit)
    for (type_name, entity_id), found in groupby(shown, lambda c: (c.type_name, c.entity_id)):
        yield f"{type_name} {short_text(entity_id)}"
        for conflict in found:
            what, said = _said(conflict, names, paint)
            yield f"  {paint(RED, '!')} {paint(RED, conflict.kind)}  {what}"
            yield from (f"      {line}" for line in said)


def way_out(total: int, limit: int) -> Iterator[str]:
    if total > limit:
        yield f"… and {counted(total - limit, 'more conflict')} (--preview or --json shows them)"
    yield (
        "decide all with --strategy ours (the target wins) or theirs (the source wins), or one by "
        "one with --resolutions FILE"
    )


def _said(conflict: Conflict, names: tuple[str, str], paint: Paint) -> tuple[str, Iterable[str]]:
    """What is in conflict, and a line for what each side has."""
    source, target = names
    if conflict.kind == "DivergentUpdate":
        sides = ((target, GREEN, conflict.ours), (source, MAGENTA, conflict.theirs))
        values = [f"{paint(colour, name)}: {short_text(value)}" for name, colour, value in sides]
        return f"{conflict.property}, was {short_text(conflict.base)}", values
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


def _image(image: dict[str, Any] | None, base: dict[str, Any], other: dict[str, Any] | None) -> str:
    """Of an entity that one side deleted, what changed; of one that both added, what differs."""
    if image is None:
        return "deleted"
    against = base if other is None else other
    return ", ".join(
        f"{name}: {short_text(value)}"
        for name, value in image.items()
        if value != against.get(name)
    )

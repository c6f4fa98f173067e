"""The name somebody may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from omnigraph.errors import InvalidArgument

_LISTED = 14
_LONGEST_NAME = 100  # comparing very long texts takes long


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """`did you mean 'x'?`, or what there is when nothing is close."""
    known = sorted(set(candidates))
    name = name[:_LONGEST_NAME]
    folded = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{folded[close[0]]}'?"
    if not known:
        return None
    listed = ", ".join(known[:_LISTED]) + (", …" if len(known) > _LISTED else "")
    return f"known here: {listed}"


LOCAL, SPARK, AUTO = "local", "spark", "auto"


def require_engine(name: str, work: str, known: tuple[str, ...] = (LOCAL, SPARK)) -> None:
    """Refuse an engine that does not do this `work`."""
    if name not in known:
        raise InvalidArgument(
            f"no {work} engine {name!r}; there is: {', '.join(known)}", engine=name
        )

"""Names out of a known set: a hint for an unknown name, and the names of the engines."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from omnigraph.errors import InvalidArgument

LOCAL, SPARK, AUTO = "local", "spark", "auto"
"""What runs a load, a query, a merge or upkeep: this process, Spark, or a choice by size."""

_LISTED = 14
_LONGEST_NAME = 100  # comparing very long texts takes long


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """`did you mean 'x'?`, or a list of the candidates when none is close."""
    known = sorted(set(candidates))
    near = nearest_name(name, known)
    if near is not None:
        return f"did you mean '{near}'?"
    if not known:
        return None
    listed = ", ".join(known[:_LISTED]) + (", …" if len(known) > _LISTED else "")
    return f"known here: {listed}"


def nearest_name(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that differs least; letter case, spaces and underscores do not count."""
    wanted = _folded(name[:_LONGEST_NAME])
    if not any(letter.isalnum() for letter in wanted):
        return None
    folded = {_folded(candidate): candidate for candidate in candidates}
    close = difflib.get_close_matches(wanted, folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def _folded(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter not in " _-.\ufeff")


def require_engine(name: str, work: str, known: tuple[str, ...] = (LOCAL, SPARK)) -> None:
    """Refuse an engine that cannot do this `work`."""
    if name not in known:
        raise InvalidArgument(
            f"no {work} engine {name!r}; known engines: {', '.join(known)}", engine=name
        )

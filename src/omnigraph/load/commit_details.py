"""What a caller may record in `Commit.details`: JSON objects by subject that readers can use.

A commit is read by every later program. Details that one of them cannot read would make the whole
branch unreadable, or its cleanup impossible.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from omnigraph.errors import InvalidArgument
from omnigraph.manifest.publication import REQUEST
from omnigraph.manifest.records import CARRIED, PIPELINE

_MOST_LEVELS = 32
_OF_THE_ENGINE = (CARRIED, REQUEST)


def details_to_record(given: Mapping[Any, Any] | None) -> Mapping[str, Any]:
    """The details as given, or a refusal that names what is wrong."""
    details = dict(given or {})
    for subject, told in details.items():
        if not isinstance(subject, str) or not isinstance(told, Mapping):
            raise _refused(f"{subject!r} is not the name of a subject with a JSON object")
        if subject in _OF_THE_ENGINE:
            raise _refused(f"the subject {subject!r} is recorded by the engine itself")
    lists = details.get(PIPELINE, {}).get("lists", ())
    if not isinstance(lists, list | tuple) or not all(isinstance(name, str) for name in lists):
        raise _refused(f"`lists` of {PIPELINE!r} are names")
    try:
        json.dumps(details, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise _refused(f"they are not JSON: {error}") from None
    if _levels(details) > _MOST_LEVELS:
        raise _refused(f"they are nested deeper than {_MOST_LEVELS} levels")
    return details


def _refused(why: str) -> InvalidArgument:
    return InvalidArgument(f"details cannot be recorded: {why}", option="details")


def _levels(value: Any) -> int:
    """How deep objects and lists are nested. Level by level, because Python limits recursion."""
    found, level = 0, [value]
    while level:
        found += 1
        parts = (part.values() if isinstance(part, Mapping) else part for part in level)
        level = [v for part in parts for v in part if isinstance(v, Mapping | list | tuple)]
    return found

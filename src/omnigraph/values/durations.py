"""Spans of time as people write them: `90s`, `30m`, `12h`, `7d`, `2w`."""

from __future__ import annotations

import datetime as dt
import re

from omnigraph.errors import InvalidArgument

_TEXT = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LONGEST_SECONDS = 100 * 365 * 86_400


def duration_micros(value: object) -> int:
    """Microseconds of a span that is not negative and not absurd."""
    if isinstance(value, dt.timedelta):
        seconds = value.total_seconds()
    else:
        match = _TEXT.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is None:
            raise InvalidArgument(f"{value!r} is no span of time: write 90s, 30m, 12h, 7d or 2w")
        seconds = float(match[1]) * _SECONDS[match[2]]
    if not 0 <= seconds <= _LONGEST_SECONDS:
        raise InvalidArgument(f"{value!r} is no span of time between nothing and a hundred years")
    return int(seconds * 1_000_000)

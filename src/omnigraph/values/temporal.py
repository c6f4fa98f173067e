"""Dates and moments: the one place that reads their text forms."""

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


EPOCH_DAY = dt.date(1970, 1, 1)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""Epoch days of the years 1 to 9999: more neither texts nor Python's calendar can say."""
_MILLIS_A_DAY = 86_400_000
FIRST_MILLI = FIRST_DAY * _MILLIS_A_DAY
LAST_MILLI = (LAST_DAY + 1) * _MILLIS_A_DAY - 1

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOMENT = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.(\d+))?([Zz]|[+-]\d{2}:\d{2})"
)


def parse_date(text: str) -> dt.date | None:
    """`2026-04-14`, else None."""
    if not _DATE.fullmatch(text):
        return None
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        return None


def parse_moment(text: str) -> dt.datetime | None:
    """RFC 3339 with an offset, in UTC, cut to milliseconds; else None."""
    found = _MOMENT.fullmatch(text)
    if not found:
        return None
    day, clock, fraction, offset = found.groups()
    millis = (fraction or "").ljust(3, "0")[:3]
    zone = "+00:00" if offset in "Zz" else offset
    try:
        return dt.datetime.fromisoformat(f"{day}T{clock}.{millis}{zone}").astimezone(dt.UTC)
    except (ValueError, OverflowError):
        return None


def date_from_days(days: int) -> dt.date | None:
    """Epoch days, else None when no calendar year holds them."""
    try:
        return EPOCH_DAY + dt.timedelta(days=days)
    except OverflowError:
        return None


def moment_from_millis(millis: int) -> dt.datetime | None:
    """Epoch milliseconds, else None when no calendar year holds them."""
    try:
        return EPOCH + dt.timedelta(milliseconds=millis)
    except OverflowError:
        return None


def write_moment(moment: dt.datetime) -> str:
    """`2026-04-14T10:00:00Z`, with milliseconds only when there are some."""
    utc = moment.astimezone(dt.UTC)
    spec = "milliseconds" if utc.microsecond else "seconds"
    return utc.isoformat(timespec=spec).replace("+00:00", "Z")

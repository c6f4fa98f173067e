"""Dates, moments and durations: the only module that reads and writes their text forms."""

from __future__ import annotations

import datetime as dt
import re

from omnigraph.errors import InvalidArgument

EPOCH_DAY = dt.date(1970, 1, 1)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""Epoch days of the years 1 to 9999, the only years that texts and Python's calendar hold."""
_MILLIS_A_DAY = 86_400_000
FIRST_MILLI = FIRST_DAY * _MILLIS_A_DAY
LAST_MILLI = (LAST_DAY + 1) * _MILLIS_A_DAY - 1

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOMENT = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.(\d+))?([Zz]|[+-]\d{2}:\d{2})"
)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LONGEST_DURATION = 100 * 365 * 86_400


def parse_date(text: str) -> dt.date | None:
    """The date of `2026-04-14`; None for any other text."""
    if not _DATE.fullmatch(text):
        return None
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        return None


def parse_moment(text: str) -> dt.datetime | None:
    """The moment of an RFC 3339 text with an offset, in UTC, cut to milliseconds; else None."""
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
    """The date of these epoch days; None outside the years 1 to 9999."""
    try:
        return EPOCH_DAY + dt.timedelta(days=days)
    except OverflowError:
        return None


def moment_from_millis(millis: int) -> dt.datetime | None:
    """The moment of these epoch milliseconds; None outside the years 1 to 9999."""
    try:
        return EPOCH + dt.timedelta(milliseconds=millis)
    except OverflowError:
        return None


def write_moment(moment: dt.datetime) -> str:
    """`2026-04-14T10:00:00Z`, with milliseconds only where they are not zero."""
    utc = moment.astimezone(dt.UTC)
    spec = "milliseconds" if utc.microsecond else "seconds"
    return utc.isoformat(timespec=spec).replace("+00:00", "Z")


def micros_of(moment: dt.datetime) -> int:
    """Epoch microseconds; a datetime without a zone is in UTC."""
    return (utc_moment(moment) - EPOCH) // dt.timedelta(microseconds=1)


def utc_moment(moment: dt.datetime) -> dt.datetime:
    """The same moment in UTC; a datetime without a zone is in UTC already."""
    return moment.astimezone(dt.UTC) if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def moment_of(micros: int) -> dt.datetime:
    return EPOCH + dt.timedelta(microseconds=micros)


def write_micros(micros: int) -> str:
    """`2026-04-14T10:00:00.000000Z`: RFC 3339, always with microseconds."""
    return moment_of(micros).isoformat(timespec="microseconds").replace("+00:00", "Z")


def duration_micros(value: object) -> int:
    """Microseconds of a `timedelta` or a text such as `90s`, `30m`, `12h`, `7d`, `2w`."""
    if isinstance(value, dt.timedelta):
        seconds = value.total_seconds()
    else:
        match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is None:
            raise InvalidArgument(f"{value!r} is not a duration: write 90s, 30m, 12h, 7d or 2w")
        seconds = float(match[1]) * _UNIT_SECONDS[match[2]]
    if not 0 <= seconds <= _LONGEST_DURATION:
        raise InvalidArgument(f"{value!r} is not a duration between 0 and 100 years")
    return int(seconds * 1_000_000)

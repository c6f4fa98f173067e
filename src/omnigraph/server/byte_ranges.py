"""Ranges and conditions of HTTP (RFC 9110) for one body with a strong tag. Pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNIT = "bytes="
_RANGE = re.compile(r"(\d*)-(\d*)")
_TAG = re.compile(r'(W/)?"([\x21\x23-\x7e\x80-\xff]*)"')


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes from `start` up to `end`, which is not included."""

    start: int
    end: int
    satisfiable: bool = True

    def content_range(self, size: int) -> str:
        return (
            f"bytes {self.start}-{self.end - 1}/{size}" if self.satisfiable else f"bytes */{size}"
        )


def parse_range(header: str | None, size: int) -> ByteRange | None:
    """The one range of the header; None: there is none that this server honours.

    Several ranges, other units and malformed ranges are ignored, as RFC 9110 allows.
    """
    if header is None or not header.startswith(_UNIT):
        return None
    found = _RANGE.fullmatch(header.removeprefix(_UNIT).strip())
    if found is None:
        return None
    first, last = found.groups()
    if not first:
        return _suffix(int(last), size) if last else None
    start = int(first)
    if last and int(last) < start:
        return None
    end = int(last) + 1 if last else size
    if start >= size:
        return ByteRange(start, max(end, start), satisfiable=False)
    return ByteRange(start, min(end, size))


def _suffix(length: int, size: int) -> ByteRange:
    if length == 0 or size == 0:
        return ByteRange(size, size, satisfiable=False)
    return ByteRange(max(0, size - length), size)


def matches_strongly(header: str, tag: str) -> bool:
    """`If-Match`: a list of tags or `*`. A weak tag never matches; a malformed list fails."""
    if header.strip() == "*":
        return True
    tags = _tags(header)
    return tags is not None and ("", tag) in tags


def matches_weakly(header: str, tag: str) -> bool:
    """`If-None-Match`: a list of tags or `*`; weak tags match, too."""
    if header.strip() == "*":
        return True
    return any(value == tag for _, value in _tags(header) or ())


def is_that_tag(header: str, tag: str) -> bool:
    """`If-Range`: exactly one strong tag."""
    return _tags(header) == [("", tag)]


def _tags(header: str) -> list[tuple[str, str]] | None:
    """The tags of a list with their weakness; None for a list that cannot be read."""
    found = []
    for part in header.split(","):
        tag = _TAG.fullmatch(part.strip())
        if tag is None:
            return None
        found.append((tag[1] or "", tag[2]))
    return found

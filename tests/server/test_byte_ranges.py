"""Ranges and conditions of one body."""

from __future__ import annotations

import pytest

from omnigraph.server.byte_ranges import (
    ByteRange,
    is_that_tag,
    matches_strongly,
    matches_weakly,
    parse_range,
)


@pytest.mark.parametrize(
    ("header", "size", "expected"),
    [
        (None, 10, None),
        ("bytes=0-3", 10, ByteRange(0, 4)),
        ("bytes=4-", 10, ByteRange(4, 10)),
        ("bytes=-3", 10, ByteRange(7, 10)),
        ("bytes=-30", 10, ByteRange(0, 10)),
        ("bytes=8-30", 10, ByteRange(8, 10)),
        ("bytes=10-", 10, ByteRange(10, 10, satisfiable=False)),
        ("bytes=10-12", 10, ByteRange(10, 13, satisfiable=False)),
        ("bytes=0-0", 0, ByteRange(0, 1, satisfiable=False)),
        ("bytes=-0", 10, ByteRange(10, 10, satisfiable=False)),
        ("bytes=-5", 0, ByteRange(0, 0, satisfiable=False)),
        ("bytes=0-1,4-5", 10, None),
        ("bytes=5-2", 10, None),
        ("bytes=-", 10, None),
        ("bytes=a-b", 10, None),
        ("lines=0-3", 10, None),
    ],
)
def test_range(header: str | None, size: int, expected: ByteRange | None) -> None:
    assert parse_range(header, size) == expected


def test_content_range() -> None:
    assert ByteRange(2, 5).content_range(10) == "bytes 2-4/10"
    assert ByteRange(12, 15, satisfiable=False).content_range(10) == "bytes */10"


@pytest.mark.parametrize(
    ("header", "strong", "weak", "exact"),
    [
        ('"a"', True, True, True),
        ('"b", "a"', True, True, False),
        ('W/"a"', False, True, False),
        ('"b"', False, False, False),
        ("*", True, True, False),
        ("a", False, False, False),
        ('"a", rubbish', False, False, False),
        ("", False, False, False),
    ],
)
def test_tags(header: str, strong: bool, weak: bool, exact: bool) -> None:
    found = (matches_strongly(header, "a"), matches_weakly(header, "a"), is_that_tag(header, "a"))
    assert found == (strong, weak, exact)

"""Long NDJSON bodies that are made while they are sent, and the memory of a process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

LONG_BODY_SCHEMA = "node Person { name: String @key  age: I32?  city: String?  bio: String? }"
_LINES = 4000


def person_lines(size: int) -> Iterator[bytes]:
    """About `size` bytes of lines, a chunk at a time. All names differ."""
    made = number = 0
    bio = "lorem ipsum dolor sit amet consetetur " * 2
    while made < size:
        chunk = "".join(
            f'{{"type":"Person","data":{{"name":"person {n}","age":{n % 90},'
            f'"city":"city {n % 1000}","bio":"{bio}{n}"}}}}\n'
            for n in range(number, number + _LINES)
        ).encode()
        number += _LINES
        made += len(chunk)
        yield chunk


def peak_bytes(pid: int) -> int:
    """The most memory that a process had at once."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024

"""Numbers with their nouns in messages."""

from __future__ import annotations


def counted(number: int, thing: str) -> str:
    """`1 node`, `2,000 nodes`, `3 branches`, `4 entities`."""
    return f"{number:,} {thing if number == 1 else _plural(thing)}"


def _plural(thing: str) -> str:
    if thing.endswith("y") and thing[-2] not in "aeiou":
        return f"{thing[:-1]}ies"
    return f"{thing}{'es' if thing.endswith(('ch', 'x', 'sh')) else 's'}"

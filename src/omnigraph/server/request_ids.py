"""Ids of requests: ULIDs, made ten times as fast as those of commits, which must also increase."""

from __future__ import annotations

import random
import time

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(first + second for first in _ALPHABET for second in _ALPHABET)
_random = random.SystemRandom()
_PAIR_BITS = 10


def new_request_id() -> str:
    """48 bits of milliseconds and 80 random bits, in the base 32 of ULIDs."""
    number = (time.time_ns() // 1_000_000) << 80 | _random.getrandbits(80)
    return "".join(_PAIRS[number >> shift & 1023] for shift in range(120, -1, -_PAIR_BITS))

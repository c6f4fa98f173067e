"""Time and new ids, passed in so that tests control them."""

from __future__ import annotations

import secrets
import threading
import time
from typing import Protocol

from ulid import ULID


class Clock(Protocol):
    """The source of wall time, waiting time and new ids."""

    def now_micros(self) -> int:
        """Microseconds since the Unix epoch."""

    def monotonic(self) -> float:
        """Seconds that never jump. Leases are measured by this clock only."""

    def sleep(self, seconds: float) -> None:
        """Block the calling thread."""

    def new_ulid(self) -> str:
        """A new id, larger than all earlier ids of this process."""


# A ULID is a number of 128 bits: milliseconds, then random bits. Its text has 5 bits a digit.
_RANDOM_BITS = 80
_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_SHIFTS = range(125, -1, -5)


class SystemClock:
    """The clock of the machine."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def now_micros(self) -> int:
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def new_ulid(self) -> str:
        fresh = (time.time_ns() // 1_000_000) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
        with self._lock:
            # Two ids of one millisecond are random. They are made to increase, so that the ids
            # of one process sort by creation.
            self._last = fresh = max(fresh, self._last + 1)
        return "".join([_DIGITS[fresh >> shift & 31] for shift in _SHIFTS])


SYSTEM_CLOCK = SystemClock()


def ulid_micros(text: str) -> int | None:
    """Microseconds since the epoch at which an id was made; None for a text that is no ULID."""
    try:
        return int(ULID.from_str(text).milliseconds) * 1000
    except ValueError:
        return None

"""Time and ULIDs, passed in so that tests own them."""

from __future__ import annotations

import datetime as dt
import threading
import time
from typing import Protocol

from ulid import ULID


class Clock(Protocol):
    """Where wall time, waiting time and new ids come from."""

    def now_micros(self) -> int:
        """Microseconds since the Unix epoch."""

    def monotonic(self) -> float:
        """Seconds that never jump; the only clock leases are judged by."""

    def sleep(self, seconds: float) -> None:
        """Wait."""

    def new_ulid(self) -> str:
        """A fresh id, increasing within this process."""


class SystemClock:
    """The real one."""

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
        fresh = int(ULID())
        with self._lock:
            # Two ids of one millisecond are random: make them increase, so that ids of one
            # process sort by creation.
            self._last = fresh = max(fresh, self._last + 1)
        return str(ULID.from_int(fresh))


SYSTEM_CLOCK = SystemClock()

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def ulid_micros(text: str) -> int | None:
    """When an id was made; None for what is no ULID."""
    try:
        return int(ULID.from_str(text).milliseconds) * 1000
    except ValueError:
        return None


def micros_to_rfc3339(micros: int) -> str:
    moment = _EPOCH + dt.timedelta(microseconds=micros)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")

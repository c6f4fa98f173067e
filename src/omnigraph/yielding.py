"""Long work of a process gives way to the short writes beside it.

A rewrite of a column keeps every thread of Lance busy, and a short write of the same process needs
the same threads. So the rewrite pauses between two batches while short writes run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_QUIET_SECONDS = 0.02
"""Writers often come one after the other, so the work waits until none came for so long."""
_PAUSE_PER_WORK = 8
_SHORTEST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 0.08
_LOOK_EVERY_SECONDS = 0.004

_never = threading.Event()


class _Traffic:
    """The short writes of this process: how many run, and when the last one ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._awaited = 0
        self._last_end = float("-inf")

    def enter(self) -> None:
        with self._lock:
            self._running += 1

    def leave(self) -> None:
        with self._lock:
            self._running -= 1
            self._last_end = time.monotonic()

    def await_work(self, change: int) -> None:
        with self._lock:
            self._awaited += change

    def lets_work_go_on(self, now: float) -> bool:
        return self._awaited > 0 or (not self._running and now - self._last_end >= _QUIET_SECONDS)


_traffic = _Traffic()


@contextmanager
def short_write() -> Iterator[None]:
    """Long work of this process pauses while it runs."""
    _traffic.enter()
    try:
        yield
    finally:
        _traffic.leave()


@contextmanager
def awaited() -> Iterator[None]:
    """Writers wait for this long work, so it does not give way to them."""
    _traffic.await_work(+1)
    try:
        yield
    finally:
        _traffic.await_work(-1)


class GiveWay:
    """Called by one piece of long work between two batches: waits while short writes run.

    A pause is at most a few times as long as the batch took, so steady writers slow the work down
    by that factor and do not stop it.
    """

    def __init__(self) -> None:
        self._batch_began = time.monotonic()

    def __call__(self) -> None:
        now = time.monotonic()
        longest = min(_PAUSE_PER_WORK * (now - self._batch_began), _LONGEST_PAUSE_SECONDS)
        deadline = now + max(longest, _SHORTEST_PAUSE_SECONDS)
        while now < deadline and not _traffic.lets_work_go_on(now):
            _never.wait(_LOOK_EVERY_SECONDS)
            now = time.monotonic()
        self._batch_began = now

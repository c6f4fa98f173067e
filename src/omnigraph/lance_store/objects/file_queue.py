"""A queue among the processes of one host, by `flock`.

It saves retries. It decides nothing: the intents do.
"""

from __future__ import annotations

import fcntl
import os
import random
import threading
from pathlib import Path

from omnigraph.values.clock import Clock

_LONGEST_TURN_SECONDS = 0.05
_POLL_SECONDS = 0.001


class FileQueue:
    """One lock file, shared by the threads of this process, exclusive between processes.

    A writer that gets no turn within its limit continues without one, because a stopped process
    must not stop the others.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._condition = threading.Condition()
        self._fd: int | None = None
        self._users = 0
        self._turn_began = 0.0
        self._acquiring = False

    def enter(self, limit_seconds: float) -> bool:
        """Join the queue. True means that this thread has a turn and must call `leave`."""
        deadline = self._clock.monotonic() + limit_seconds
        with self._condition:
            while True:
                if self._fd is not None and not self._turn_is_over():
                    self._users += 1
                    return True
                if self._fd is None and not self._acquiring:
                    self._acquiring = True
                    break
                remaining = deadline - self._clock.monotonic()
                if remaining <= 0 or not self._condition.wait(remaining):
                    return False
        try:
            fd = self._poll_lock(deadline)
        except BaseException:
            # Interrupted: otherwise the next thread would wait for this one for ever.
            self._stop_acquiring(None)
            raise
        self._stop_acquiring(fd)
        return fd is not None

    def leave(self) -> None:
        with self._condition:
            self._users -= 1
            if self._users == 0 and self._fd is not None:
                os.close(self._fd)
                self._fd = None
            self._condition.notify_all()

    def _stop_acquiring(self, fd: int | None) -> None:
        with self._condition:
            self._acquiring = False
            if fd is not None:
                self._fd, self._users = fd, 1
                self._turn_began = self._clock.monotonic()
            self._condition.notify_all()

    def _turn_is_over(self) -> bool:
        # Without a limit, threads that keep joining would starve the other processes.
        return self._clock.monotonic() - self._turn_began > _LONGEST_TURN_SECONDS

    def _poll_lock(self, deadline: float) -> int | None:
        try:
            self._path.parent.mkdir(exist_ok=True)
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError:
            return None
        locked = False
        try:
            locked = self._lock_in_time(fd, deadline)
        finally:
            if not locked:
                os.close(fd)
        return fd if locked else None

    def _lock_in_time(self, fd: int, deadline: float) -> bool:
        pause = _POLL_SECONDS
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if self._clock.monotonic() >= deadline:
                    return False
                self._clock.sleep(pause * random.uniform(0.5, 1.5))
                pause = min(pause * 1.3, 0.02)
            else:
                return True

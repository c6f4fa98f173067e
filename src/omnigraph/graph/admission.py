"""How many calls run at once: reads of a process, and writes of one actor.

A handle of an embedded graph has no such limits. A server gives each handle an `Admission`, which
every operation of `Graph` passes. A call beyond a limit is refused before it does anything.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from omnigraph.errors import AdmissionRefused

_READ_RETRY_SECONDS = 1.0
_WRITE_RETRY_SECONDS = 1.0
_NEWEST_SHARE = 0.1
"""How much the newest write counts in the mean time of a write."""
ANONYMOUS = "anonymous"
"""The actor of calls without a name."""


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """The most calls and bytes at once."""

    reads: int
    streams: int
    actor_writes: int
    actor_bytes: int
    writes: int
    write_wait_seconds: float


class WriteSlots(Protocol):
    """Counts the writes of each actor; workers of one server share one count."""

    def take(self, actor: str, estimate: int) -> Callable[[], None] | str:
        """A function that gives the slot back, or the name of the limit that is reached."""


class ProcessSlots:
    """Counts in the memory of one process."""

    def __init__(self, limits: AdmissionLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._held: dict[str, list[int]] = {}

    def take(self, actor: str, estimate: int) -> Callable[[], None] | str:
        with self._lock:
            held = self._held.setdefault(actor, [])
            if len(held) >= self._limits.actor_writes:
                return "actor_inflight"
            if held and sum(held) + estimate > self._limits.actor_bytes:
                return "actor_bytes"
            held.append(estimate)

        def release() -> None:
            with self._lock:
                held.remove(estimate)
                if not held and self._held.get(actor) is held:
                    del self._held[actor]

        return release


class Admission:
    """Counts the calls in flight of one process, and refuses those beyond the limits."""

    def __init__(self, limits: AdmissionLimits, slots: WriteSlots | None = None) -> None:
        self.limits = limits
        self._slots = slots or ProcessSlots(limits)
        self._lock = threading.Lock()
        self._turns = threading.Semaphore(limits.writes)
        self._queued = 0
        self._write_seconds = 0.0
        """The mean time of the latest writes, from turn to end."""
        self.inflight = {"read": 0, "stream": 0, "write": 0}
        self.refused: dict[str, int] = {}
        """Number of refused calls by the name of the limit."""

    @contextmanager
    def stream(self) -> Iterator[None]:
        """A read whose rows are sent for as long as the client takes them."""
        self.enter("stream", self.limits.streams)
        try:
            yield
        finally:
            self.add("stream", -1)

    @contextmanager
    def write(self, actor: str | None, estimate: int) -> Iterator[None]:
        """A slot of the actor at once, then a turn among all writes of this process."""
        release = self._slots.take(actor or ANONYMOUS, estimate)
        if isinstance(release, str):
            raise self._refusal(release, _WRITE_RETRY_SECONDS)
        try:
            self._wait_for_turn()
            began = time.monotonic()
            try:
                self.add("write", 1)
                yield
            finally:
                self.add("write", -1)
                self._turns.release()
                self._write_seconds += _NEWEST_SHARE * (
                    time.monotonic() - began - self._write_seconds
                )
        finally:
            release()

    def _wait_for_turn(self) -> None:
        if self._turns.acquire(blocking=False):
            return
        with self._lock:
            self._queued += 1
        try:
            in_time = self._turns.acquire(timeout=self.limits.write_wait_seconds)
        finally:
            with self._lock:
                self._queued -= 1
        if not in_time:
            # Those that wait, and this one, take the turns one after the other.
            rounds = (self._queued + 1) / self.limits.writes
            raise self._refusal("write_queue", max(1.0, rounds * self._write_seconds))

    def enter(self, kind: str, most: int) -> None:
        """Count one more call of this kind, or refuse it."""
        with self._lock:
            if self.inflight[kind] < most:
                self.inflight[kind] += 1
                return
        raise self._refusal(f"{kind}_inflight", _READ_RETRY_SECONDS)

    def add(self, kind: str, count: int) -> None:
        with self._lock:
            self.inflight[kind] += count

    def _refusal(self, reason: str, retry_after: float) -> AdmissionRefused:
        with self._lock:
            self.refused[reason] = self.refused.get(reason, 0) + 1
        text, limit = {
            "read_inflight": ("reads", self.limits.reads),
            "stream_inflight": ("streams", self.limits.streams),
            "actor_inflight": ("writes of this actor", self.limits.actor_writes),
            "actor_bytes": ("bytes in writes of this actor", self.limits.actor_bytes),
            "write_queue": ("writes", self.limits.writes),
        }[reason]
        return AdmissionRefused(
            f"{limit:,} {text} at once is the limit; nothing was done, repeat it later",
            reason=reason,
            retry_after=retry_after,
            limit=limit,
        )

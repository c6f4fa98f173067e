"""The processes of one host take turns on a branch: contention costs a queue, not retries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from omnigraph.commit.intents import overlap
from omnigraph.lance_store.objects.file_queue import FileQueue
from omnigraph.lance_store.store import Store
from omnigraph.manifest.layout import LOCKS
from omnigraph.manifest.records import BranchRef
from omnigraph.values.clock import Clock


@dataclass(frozen=True, eq=False, slots=True)
class _Ticket:
    exclusive: frozenset[str]
    shared: frozenset[str]


class Gates:
    """First come, first served among conflicting tickets."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._line: list[_Ticket] = []

    @contextmanager
    def enter(self, exclusive: frozenset[str], shared: frozenset[str]) -> Iterator[None]:
        ticket = _Ticket(exclusive, shared)
        try:
            with self._condition:
                self._line.append(ticket)
                self._condition.wait_for(lambda: self._is_next(ticket))
            yield
        finally:
            # Also for a wait that was cut short: a ticket left behind would close the table for
            # as long as this process lives.
            with self._condition:
                if ticket in self._line:
                    self._line.remove(ticket)
                self._condition.notify_all()

    def _is_next(self, ticket: _Ticket) -> bool:
        for earlier in self._line:
            if earlier is ticket:
                return True
            if overlap(earlier, ticket):
                return False
        return True


_LOOK_EVERY_SECONDS = 0.25


class BranchQueues:
    """One lock file per branch on local graphs; nothing on object stores."""

    def __init__(
        self, store: Store, clock: Clock, limit_seconds: float, observe: Callable[[], object]
    ) -> None:
        self._root = store.location.path
        self._clock = clock
        self._limit = limit_seconds
        self._observe = observe
        self._lock = threading.Lock()
        self._queues: dict[str, FileQueue] = {}

    @contextmanager
    def turn(self, ref: BranchRef) -> Iterator[None]:
        queue = self._queue(ref)
        entered = queue is not None and self._enter(queue)
        try:
            yield
        finally:
            if queue is not None and entered:
                queue.leave()

    def _enter(self, queue: FileQueue) -> bool:
        """Waiting here and waiting for a lease overlap: whoever blocks us is watched meanwhile."""
        deadline = self._clock.monotonic() + self._limit
        while (remaining := deadline - self._clock.monotonic()) > 0:
            if queue.enter(min(remaining, _LOOK_EVERY_SECONDS)):
                return True
            self._observe()
        return False

    def _queue(self, ref: BranchRef) -> FileQueue | None:
        if self._root is None:
            return None
        with self._lock:
            queue = self._queues.get(ref.incarnation)
            if queue is None:
                path = self._root / LOCKS / f"{ref.incarnation}.lock"
                queue = self._queues[ref.incarnation] = FileQueue(path, self._clock)
            return queue

"""Writers wait for their turn: the threads of a process, and the processes of a host.

The queues only save retries. Whether two writers exclude each other is decided by their intents.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from omnigraph.commit.intents import Resources
from omnigraph.lance_store.objects.file_queue import FileQueue
from omnigraph.lance_store.store import Store
from omnigraph.manifest.layout import LOCKS
from omnigraph.manifest.records import BranchRef
from omnigraph.values.bounded_cache import BoundedCache
from omnigraph.values.clock import Clock

_LOOK_EVERY_SECONDS = 0.25
_MOST_BRANCHES = 1024


@dataclass(frozen=True, eq=False, slots=True)
class _Ticket:
    """Compared by identity: two threads may wait for the same resources."""

    resources: Resources


class ThreadQueue:
    """Threads whose resources overlap enter one after the other, first come, first served."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._line: list[_Ticket] = []

    @contextmanager
    def turn(self, resources: Resources) -> Iterator[None]:
        ticket = _Ticket(resources)
        try:
            with self._condition:
                self._line.append(ticket)
                self._condition.wait_for(lambda: self._is_next(ticket))
            yield
        finally:
            # An interrupted wait comes here, too: a ticket that stays in the line would block its
            # resources for as long as this process lives.
            with self._condition:
                if ticket in self._line:
                    self._line.remove(ticket)
                self._condition.notify_all()

    def _is_next(self, ticket: _Ticket) -> bool:
        for earlier in self._line:
            if earlier is ticket:
                return True
            if earlier.resources.overlaps(ticket.resources):
                return False
        return True


class BranchQueues:
    """Processes of one host take turns on a branch: a lock file per branch of a local graph.

    On object stores there is no queue: writers meet at their intents.
    """

    def __init__(
        self, store: Store, clock: Clock, limit_seconds: float, observe: Callable[[], object]
    ) -> None:
        """`observe` looks at the board, see `_enter`."""
        self._root = store.location.path
        self._clock = clock
        self._limit = limit_seconds
        self._observe = observe
        self._queues: BoundedCache[str, FileQueue] = BoundedCache(_MOST_BRANCHES)

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
        """False when the turn did not come within the limit; the writer then goes on without it.

        The board is observed while this process waits, so that the lease of a dead writer runs
        out during the wait and not after it.
        """
        deadline = self._clock.monotonic() + self._limit
        while (remaining := deadline - self._clock.monotonic()) > 0:
            if queue.enter(min(remaining, _LOOK_EVERY_SECONDS)):
                return True
            self._observe()
        return False

    def _queue(self, ref: BranchRef) -> FileQueue | None:
        if self._root is None:
            return None
        # Two queues of one branch, after one was forgotten, exclude each other by the lock file.
        path = self._root / LOCKS / f"{ref.incarnation}.lock"
        known = self._queues.get(ref.incarnation)
        return known or self._queues.get_or_put(ref.incarnation, FileQueue(path, self._clock))

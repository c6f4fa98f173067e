"""Writers wait for their turn: the threads of a process, and the processes of a host.

The queues only save retries. Whether two writers exclude each other is decided by their intents.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.commit.intents import Resources
from omnigraph.lance_store.store import Store
from omnigraph.manifest.layout import LOCKS
from omnigraph.manifest.records import BranchRef
from omnigraph.values.bounded_cache import BoundedCache
from omnigraph.values.clock import Clock

if TYPE_CHECKING:
    from omnigraph.commit.group import QueuedWrite

_LOOK_EVERY_SECONDS = 0.25
_MOST_BRANCHES = 1024
_LONGEST_TURN_SECONDS = 0.05
_POLL_SECONDS = 0.001


class TicketState(Enum):
    """Where a ticket is: it waits, it has its turn, or the turn of another ticket carries it."""

    WAITS = "waits"
    INSIDE = "inside"
    CARRIED = "carried"


class Ticket:
    """A place in the line. Compared by identity: two threads may wait for the same resources."""

    __slots__ = ("gone", "place", "resources", "then", "woken", "write")

    def __init__(self, resources: Resources, write: QueuedWrite | None = None) -> None:
        self.resources = resources
        self.write = write
        """What another ticket may carry; None for a ticket that needs its own turn."""
        self.place = TicketState.WAITS
        self.woken = threading.Event()
        self.gone = False
        """The thread was interrupted and does not wait any more."""
        self.then: Ticket | None = None
        """The ticket that this one wakes when it is awake itself."""

    def wake_next(self) -> None:
        """Safe to repeat, because an interrupt may come at any point."""
        if self.then is not None:
            self.then.woken.set()
            self.then = None


class ThreadQueue:
    """Threads whose resources overlap enter one after the other, first come, first served.

    A ticket with a write may be carried: a ticket that has its turn takes writes that wait for it
    along, so their threads need no turn. It never takes one past a ticket that came before and
    overlaps it, so no thread waits longer for that.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._line: list[Ticket] = []

    @contextmanager
    def turn(self, resources: Resources) -> Iterator[None]:
        with self.turn_or_ride(Ticket(resources)):
            yield

    @contextmanager
    def turn_or_ride(self, ticket: Ticket) -> Iterator[bool]:
        """True: the turn has come. False: the turn of another ticket has carried this one."""
        try:
            with self._lock:
                if not any(ticket.resources.overlaps(other.resources) for other in self._line):
                    self._enter(ticket)
                self._line.append(ticket)
            ticket.woken.wait()
            ticket.wake_next()
            yield ticket.place is TicketState.INSIDE
        finally:
            # An interrupted wait comes here, too: a ticket that stays in the line would block its
            # resources for as long as this process lives. A carried ticket stays until the turn
            # that carries it ends, because its resources are in use.
            with self._lock:
                ticket.gone = True
                ticket.wake_next()
                if ticket.place is not TicketState.CARRIED and ticket in self._line:
                    self._line.remove(ticket)
                    self._let_in()

    def take_along(self, leader: Ticket, most: int) -> list[Ticket]:
        """Waiting tickets with a write that wait for `leader` or for each other, in order."""
        taken: list[Ticket] = []
        with self._lock:
            passed: list[Resources] = []
            union = leader.resources
            for ticket in self._line:
                if ticket is leader:
                    continue
                fits = (
                    len(taken) < most
                    and ticket.place is TicketState.WAITS
                    and ticket.write is not None
                    and ticket.resources.overlaps(union)
                    and not any(ticket.resources.overlaps(other) for other in passed)
                )
                if not fits:
                    passed.append(ticket.resources)
                    continue
                ticket.place = TicketState.CARRIED
                union = union.joined(ticket.resources)
                taken.append(ticket)
        return taken

    def put_down(self, carried: Sequence[Ticket], done: Sequence[Ticket]) -> None:
        """End the ride of tickets: those in `done` leave the line, the others wait again."""
        with self._lock:
            leaving: list[Ticket] = []
            for ticket in carried:
                if ticket in done or ticket.gone:
                    self._line.remove(ticket)
                    leaving += [] if ticket.gone else [ticket]
                else:
                    ticket.place = TicketState.WAITS
            # Each thread wakes the next one. Dozens of threads that wake at once would take the
            # interpreter from each other, and from the thread that leads the next group.
            for ticket, following in itertools.pairwise(leaving):
                ticket.then = following
            if leaving:
                leaving[0].woken.set()
            self._let_in()

    def waiting(self) -> int:
        """The number of threads that wait for a turn."""
        with self._lock:
            return sum(ticket.place is TicketState.WAITS for ticket in self._line)

    def _let_in(self) -> None:
        """Wake each ticket whose turn has come, and no other. The caller holds the lock."""
        earlier: list[Resources] = []
        for ticket in self._line:
            blocked = any(ticket.resources.overlaps(other) for other in earlier)
            if ticket.place is TicketState.WAITS and not blocked:
                self._enter(ticket)
            earlier.append(ticket.resources)

    def _enter(self, ticket: Ticket) -> None:
        ticket.place = TicketState.INSIDE
        ticket.woken.set()


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

"""Builds beside queries: a thread that makes what queries could do without so far.

A query that needs a few rows of a state that is not in memory reads them from storage, through
indexes or by a scan of a few columns. `decide` says whether it does so, and whether the state is
built beside it. It is a pure function of costs. Costs are counted in rows of a build.

`Builds` remembers what was spent for each piece of a state (the ids of a table, one column, one
direction of an adjacency), and has the thread. The thread starts when there is something to build
and ends when there is not. It calls the same functions as a query that needs the whole piece, under
the lock of the state, so a piece is made once, by the query or by the thread.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeVar

from omnigraph.values.bounded_cache import BoundedCache

_T = TypeVar("_T")
_R = TypeVar("_R")

logger = logging.getLogger(__name__)

# Reads that have cost this share of a build start it.
_START_SHARE = 1 / 32
# A read from storage that costs a larger share than this waits for the build instead, because the
# build is under way soon anyway.
_WAIT_SHARE = 0.5
# A process that asks once and ends builds nothing, and the query that asked is not disturbed. The
# builds begin earlier when a piece is asked for again.
_GRACE_SECONDS = 0.2
_PIECES = 1024
_WAITING = 256

_every: weakref.WeakSet[Builds] = weakref.WeakSet()


class RowSource(Enum):
    """How a query gets its rows."""

    STORAGE = auto()
    STORAGE_AND_BUILD = auto()
    """From storage, while the piece is built beside the query."""
    WHOLE = auto()
    """The query makes the piece, or waits until the thread has made it."""


@dataclass(frozen=True, slots=True)
class Need:
    """What is known when a query needs a few rows of a piece that is not in memory."""

    storage: float
    """The cost of the rows from storage."""
    build: float
    """The cost of the whole piece: read and sorted, or mapped from a file."""
    spent: float
    """The cost of earlier reads from storage since the piece was last begun."""
    reads: int
    """Their number."""
    begun: int
    """How often the thread has begun the piece. It is in memory no longer, or failed."""
    hurried: bool
    """An older state of the piece was in memory, so queries use it."""
    beside: bool
    """Whether a thread may build it: there is one, and the memory is enough."""


def decide(need: Need) -> RowSource:
    """No query waits for a build that costs more than its rows.

    A piece that was begun before is begun again when queries have spent as much as it costs. So a
    piece that does not stay in memory, or fails, at most doubles the cost of the queries.
    """
    spent = need.spent + need.storage
    if not need.beside:
        return RowSource.WHOLE if spent > need.build else RowSource.STORAGE
    if need.storage > need.build * _WAIT_SHARE:
        return RowSource.WHOLE
    if need.begun:
        starts = spent > need.build * need.begun
    else:
        starts = need.hurried or need.reads > 0 or spent >= need.build * _START_SHARE
    return RowSource.STORAGE_AND_BUILD if starts else RowSource.STORAGE


class BuildCancelled(Exception):
    """The graph was closed while a piece was built."""


@dataclass(slots=True)
class _Spending:
    spent: float = 0.0
    reads: int = 0
    begun: int = 0
    hurried: bool = False


_current = threading.local()


def build_step() -> None:
    """Called between two steps of a build. Ends the build of a closed graph."""
    stopped: threading.Event | None = getattr(_current, "stopped", None)
    if stopped is not None and stopped.is_set():
        raise BuildCancelled


@contextmanager
def building(stopped: threading.Event | None) -> Iterator[None]:
    """Steps in this thread belong to a build that the event ends."""
    outer = current_build()
    _current.stopped = stopped
    try:
        yield
    finally:
        _current.stopped = outer


def current_build() -> threading.Event | None:
    """What ends the build in this thread."""
    stopped: threading.Event | None = getattr(_current, "stopped", None)
    return stopped


def in_this_build(work: Callable[[_T], _R]) -> Callable[[_T], _R]:
    """The work as a part of the build in this thread, for threads that help it."""
    stopped = current_build()

    def done(given: _T) -> _R:
        with building(stopped):
            return work(given)

    return done


class Builds:
    """The builds of one open graph. Without `beside` queries build for themselves."""

    def __init__(
        self,
        limit_bytes: int = 0,
        *,
        beside: bool = False,
        grace_seconds: float = _GRACE_SECONDS,
        threaded: bool = True,
    ) -> None:
        self._limit = limit_bytes
        self._beside = beside
        self._grace = grace_seconds
        self._threaded = threaded
        self._pieces: BoundedCache[Hashable, _Spending] = BoundedCache(_PIECES)
        self.when_cut_off: Callable[[], None] = lambda: None
        """Called in a forked child when a build was under way: its locks are held forever."""
        self._reset()
        _every.add(self)

    def _reset(self) -> None:
        self._condition = threading.Condition()
        self._stopped = threading.Event()
        self._goes_on = threading.Event()
        """Set when the thread waits no longer for the process to go on."""
        self._waiting: dict[Hashable, Callable[[], object]] = {}
        self._making: Hashable | None = None
        self._thread: threading.Thread | None = None

    def reads_storage(
        self,
        name: Hashable,
        storage: float,
        build: float,
        size: int,
        make: Callable[[], object],
    ) -> bool:
        """Whether a query reads its rows from storage. Starts the build of the piece if it is due.

        `size` is the most memory that the build takes.
        """
        piece = self._piece(name)
        beside = self._beside and size <= self._limit and not self._stopped.is_set()
        way = decide(
            Need(storage, build, piece.spent, piece.reads, piece.begun, piece.hurried, beside)
        )
        if way is RowSource.WHOLE:
            return False
        piece.spent += storage
        piece.reads += 1
        if way is RowSource.STORAGE_AND_BUILD:
            self.start(name, make)
        return True

    def hurry(self, name: Hashable) -> None:
        """An older state of this piece was in memory: the first query that needs it starts it."""
        self._piece(name).hurried = True

    def start(self, name: Hashable, make: Callable[[], object]) -> None:
        """Build a piece beside the queries, after those that wait. Does nothing if it waits."""
        with self._condition:
            if name in self._waiting:
                self._goes_on.set()
            if self._stopped.is_set() or name == self._making or name in self._waiting:
                return
            if len(self._waiting) >= _WAITING:
                return
            self._waiting[name] = make
            if self._threaded and self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="omnigraph-builds", daemon=True
                )
                self._thread.start()

    def start_new(self, name: Hashable, size: int, make: Callable[[], object]) -> None:
        """Build a piece that queries of an older state used, unless it was begun before."""
        if self._beside and size <= self._limit and not self._piece(name).begun:
            self.start(name, make)

    @property
    def is_idle(self) -> bool:
        return not self._waiting and self._making is None

    def settle(self, timeout: float = 60.0) -> bool:
        """Wait until nothing is left to build; False when the timeout passed first."""
        with self._condition:
            return self._condition.wait_for(lambda: self._thread is None, timeout)

    def step(self) -> bool:
        """Build the next piece in this thread; False when there is none."""
        with self._condition:
            if self._stopped.is_set() or not self._waiting:
                return False
            name, make = next(iter(self._waiting.items()))
            del self._waiting[name]
            self._making = name
        piece = self._piece(name)
        piece.begun += 1
        piece.spent, piece.reads, piece.hurried = 0.0, 0, False
        try:
            with building(self._stopped):
                make()
        except BuildCancelled:
            pass
        except Exception as error:
            # The next query reads from storage, or meets the same error where it is told.
            logger.info("a build beside queries failed: %s", error, exc_info=True)
        finally:
            self._making = None
        return True

    def stop(self) -> None:
        """Begin no other piece, and wait for the end of the current step."""
        with self._condition:
            self._stopped.set()
            self._goes_on.set()
            self._waiting.clear()
            self._condition.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def forget_threads(self) -> None:
        """In a forked child, which has no other thread."""
        was_building, was_stopped = self._making is not None, self._stopped.is_set()
        self._reset()
        if was_stopped:
            self._stopped.set()
        if was_building:
            self.when_cut_off()

    def _piece(self, name: Hashable) -> _Spending:
        found = self._pieces.get(name)
        if found is None:
            found = _Spending()
            self._pieces.put(name, found)
        return found

    def _work(self) -> None:
        self._goes_on.wait(self._grace)
        while True:
            if self.step():
                continue
            with self._condition:
                if self._stopped.is_set() or not self._waiting:
                    self._thread = None
                    self._goes_on.clear()
                    self._condition.notify_all()
                    return


@atexit.register
def _stop_all() -> None:
    # A thread that waits for the interpreter while it ends would bring the process down.
    for builds in list(_every):
        builds.stop()


def _after_fork() -> None:
    for builds in list(_every):
        builds.forget_threads()


os.register_at_fork(after_in_child=_after_fork)

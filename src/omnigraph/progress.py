"""Progress of long work: messages while it runs, and a line on the terminal that shows them.

The work calls `tell`, with or without a listener. A listener belongs to the calling thread.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE_SECONDS = 0.7  # shorter work shows no line


@dataclass(frozen=True, slots=True)
class ProgressStep:
    """What the work does now, and how much of it is done."""

    what: str
    done: int = 0
    total: int | None = None
    unit: str = ""

    @property
    def count(self) -> str:
        if not self.unit:
            return ""
        shown = [f"{n / 1e6:,.1f}" if self.unit == "MB" else f"{n:,}" for n in self._numbers()]
        return f"{' of '.join(shown)} {self.unit}"

    def _numbers(self) -> list[int]:
        return [self.done] if self.total is None else [self.done, self.total]


Listener = Callable[[ProgressStep], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def tell(what: str, done: int = 0, total: int | None = None, unit: str = "") -> None:
    """Tell the listener what is done now; with the unit `MB` the numbers are bytes."""
    listener = _listener.get()
    if listener is not None:
        listener(ProgressStep(what, done, total, unit))


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def terminal_is_watched() -> bool:
    """Stderr is a terminal that can erase a line."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def shown(what: str) -> Iterator[None]:
    """Show the progress as a line on stderr, and erase it afterwards."""
    if _listener.get() is not None:  # a listener shows it already
        yield
        return
    line = _Line(ProgressStep(what))
    try:
        with heard_by(line.hear):
            yield
    finally:
        line.close()


class _Line:
    """The line of one piece of work; it appears when the work takes longer than the patience."""

    def __init__(self, first: ProgressStep) -> None:
        self._step = first
        self._lock = threading.Lock()
        self._bar: Progress | None = None
        self._closed = False
        self._timer = threading.Timer(PATIENCE_SECONDS, self._appear)
        self._timer.daemon = True
        self._timer.start()

    def hear(self, step: ProgressStep) -> None:
        with self._lock:
            self._step = step
            self._draw()

    def close(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._bar is not None:
                self._bar.stop()

    def _appear(self) -> None:
        bar = _rich_bar()
        with self._lock:
            if not self._closed:
                self._bar = bar
                bar.add_task("", total=None, count="")
                self._draw()
                bar.start()

    def _draw(self) -> None:
        if self._bar is None:
            return
        step, task = self._step, self._bar.task_ids[0]
        self._bar.update(
            task, description=step.what, completed=step.done, total=step.total, count=step.count
        )


def _rich_bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )

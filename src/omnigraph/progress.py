"""Progress of long work: messages while it runs, and bars on the terminal that show them.

The work calls `tell`, with or without a listener. A listener belongs to the calling thread. Work
in stages has a bar for each of them; other work has one bar.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE_SECONDS = 0.7  # shorter work shows no line


@dataclass(frozen=True, slots=True)
class ProgressStep:
    """What the work does now, and how much of it is done."""

    what: str
    done: int = 0
    total: int | None = None
    unit: str = ""
    stage: str = ""
    """The part of the work that this step belongs to, if the work has parts."""

    @property
    def count(self) -> str:
        if not self.unit:
            return ""
        shown = [self._spelled(n) for n in self._numbers()]
        return f"{' of '.join(shown)} {self.unit}"

    def rate(self, per_second: float) -> str:
        """`12.5 MB/s`; empty if it is not known."""
        return f"{self._spelled(per_second)} {self.unit}/s" if self.unit and per_second else ""

    def _spelled(self, number: float) -> str:
        return f"{number / 1e6:,.1f}" if self.unit == "MB" else f"{number:,.0f}"

    def _numbers(self) -> list[int]:
        return [self.done] if self.total is None else [self.done, self.total]


Listener = Callable[[ProgressStep], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
_shown: ContextVar[_Bars | None] = ContextVar("shown", default=None)


def tell(
    what: str, done: int = 0, total: int | None = None, unit: str = "", stage: str = ""
) -> None:
    """Tell the listener what is done now; with the unit `MB` the numbers are bytes.

    `done` is cut to `total`, because sizes of compressed inputs are estimates.
    """
    hearing = _listener.get()
    if hearing is not None:
        _send(hearing, what, done, total, unit, stage)


class Teller(Protocol):
    """The arguments of `tell`."""

    def __call__(
        self, what: str, done: int = 0, total: int | None = None, unit: str = "", stage: str = ""
    ) -> None: ...


def teller() -> Teller:
    """`tell` for other threads: it tells the listener of the thread that calls `teller`."""
    hearing = _listener.get()

    def tell_it(
        what: str, done: int = 0, total: int | None = None, unit: str = "", stage: str = ""
    ) -> None:
        if hearing is not None:
            _send(hearing, what, done, total, unit, stage)

    return tell_it


def _send(
    hearing: Listener, what: str, done: int, total: int | None, unit: str, stage: str
) -> None:
    most = done if total is None else min(done, total)
    hearing(ProgressStep(what, most, total, unit, stage))


@contextmanager
def heard_by(hearing: Listener) -> Iterator[None]:
    token = _listener.set(hearing)
    try:
        yield
    finally:
        _listener.reset(token)


def listener() -> Listener:
    """The listener of this thread, for one that hears everything first; it may do nothing."""
    found = _listener.get()
    return found if found is not None else lambda _step: None


def terminal_is_watched() -> bool:
    """Stderr is a terminal that can erase a line."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def shown(what: str) -> Iterator[None]:
    """Show the progress as bars on stderr, and erase them afterwards."""
    if _listener.get() is not None:  # a listener shows it already
        yield
        return
    bars = _Bars(ProgressStep(what))
    token = _shown.set(bars)
    try:
        with heard_by(bars.hear):
            yield
    finally:
        _shown.reset(token)
        bars.close()


@contextmanager
def hidden() -> Iterator[None]:
    """Hide the bars while the user is asked something."""
    bars = _shown.get()
    if bars is None:
        yield
        return
    bars.hide()
    try:
        yield
    finally:
        bars.show_again()


class _Bars:
    """The bars of one piece of work; they appear when it takes longer than the patience."""

    def __init__(self, first: ProgressStep) -> None:
        self._steps = {first.stage: first}
        self._began: dict[str, float] = {first.stage: monotonic()}
        self._lock = threading.Lock()
        self._rich: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._closed = False
        self._hidden = False
        self._timer = threading.Timer(PATIENCE_SECONDS, self._appear)
        self._timer.daemon = True
        self._timer.start()

    def hear(self, step: ProgressStep) -> None:
        with self._lock:
            if step.stage and "" in self._steps and len(self._steps) == 1:
                self._forget_first()  # it only said that work begins
            self._began.setdefault(step.stage, monotonic())
            self._steps[step.stage] = step
            self._draw(step.stage)

    def close(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._rich is not None:
                self._rich.stop()

    def _forget_first(self) -> None:
        self._steps.clear()
        if self._rich is not None and "" in self._tasks:
            self._rich.remove_task(self._tasks.pop(""))

    def hide(self) -> None:
        with self._lock:
            self._hidden = True
            if self._rich is not None:
                self._rich.stop()

    def show_again(self) -> None:
        with self._lock:
            self._hidden = False
            if self._rich is not None:
                self._rich.start()

    def _appear(self) -> None:
        bars = _rich_bars()
        with self._lock:
            if not self._closed:
                self._rich = bars
                for stage in self._steps:
                    self._draw(stage)
                if not self._hidden:
                    bars.start()

    def _draw(self, stage: str) -> None:
        if self._rich is None:
            return
        if stage not in self._tasks:
            for earlier in self._tasks.values():
                self._rich.stop_task(earlier)
            self._tasks[stage] = self._rich.add_task("", total=None, count="", rate="")
        step = self._steps[stage]
        seconds = monotonic() - self._began[stage]
        self._rich.update(
            self._tasks[stage],
            description=step.what,
            completed=step.done,
            total=step.total,
            count=step.count,
            rate=step.rate(step.done / seconds if seconds > 0 else 0.0),
        )


def _rich_bars() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[count]}"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        console=Console(stderr=True),
        transient=True,
    )

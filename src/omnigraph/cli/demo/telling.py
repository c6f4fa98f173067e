"""How a story is told: chapters, steps with their times, and rows."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from omnigraph.cli.output import print_result
from omnigraph.cli.session import Session
from omnigraph.cli.tables import folded

INDENT = " " * 13


class Story:
    """Prints what happens and keeps the measured times."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.steps: list[dict[str, Any]] = []

    def chapter(self, title: str) -> None:
        self.say("")
        self.say(title)

    def say(self, text: str) -> None:
        if not self._session.json:
            print_result(f"{folded(text, len(INDENT) if text.startswith(' ') else 0)}\n")
            sys.stdout.flush()

    @contextmanager
    def step(self, title: str, entities: int | None = None) -> Iterator[None]:
        began = time.perf_counter()
        with self._session.working(title):
            yield
        seconds = time.perf_counter() - began
        self.steps.append({"step": title, "milliseconds": round(seconds * 1000, 1)})
        rate = f"  ({entities / seconds:,.0f} a second)" if entities else ""
        self.say(f"  {duration_text(seconds):>9}  {title}{rate}")

    def show(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            self.say(INDENT + "  ".join(f"{name}: {value}" for name, value in row.items()))


def duration_text(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds >= 1 else f"{seconds * 1000:,.1f} ms"

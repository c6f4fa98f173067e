"""Colours where somebody looks at a terminal; plain text everywhere else."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TextIO

GREEN, RED, YELLOW, MAGENTA = 32, 31, 33, 35

Paint = Callable[[int, str], str]


def painter(stream: TextIO) -> Paint:
    """Paints on a terminal, unless `NO_COLOR` asks for plain text (https://no-color.org)."""
    dull = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    wanted = stream.isatty() and not dull
    return _paint if wanted else plain


def _paint(colour: int, text: str) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m"


def plain(colour: int, text: str) -> str:
    return text

"""Print results on stdout and notes on stderr; exit codes; colours for terminals."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

import typer

from omnigraph.values.json_values import json_text

if TYPE_CHECKING:
    from omnigraph.manifest.records import Commit


EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_LOST_PRECONDITION = 4
EXIT_CONFLICTS = 5
EXIT_REFUSED = 75  # a server refused before it began: repeating is safe
EXIT_BROKEN_PIPE = 141  # what a shell shows for a program that SIGPIPE ended


class WrongUsage(typer.BadParameter):
    """The command line is contradictory or incomplete: exit code 2."""

    def format_message(self) -> str:
        return self.message


def print_result(text: str) -> None:
    """Print a text, with a line break at the end if it has none."""
    sys.stdout.write(text if text.endswith("\n") or not text else f"{text}\n")


def print_json(value: Any) -> None:
    print_result(json_text(value, indent=2))


def print_report(body: dict[str, Any], error: str | None, code: str) -> None:
    """Print a report as JSON; with `error` it is also an error object, as of every failure."""
    if error is None:
        print_json(body)
    else:
        print_json({"error": error, "code": code, "retryable": False, **body})


def print_note(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def readable_bytes(count: int) -> str:
    """`512 B`, `1.5 MB`."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def already_done(commit: Commit) -> str:
    """The result of a write whose idempotency key was used before."""
    return f"already done by commit {commit.graph_commit_id}"


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

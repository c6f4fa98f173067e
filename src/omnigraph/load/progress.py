"""What a load tells while it reads: a bar on a terminal, or numbers to a function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from omnigraph.load.prepare import Progress
from omnigraph.load.sources import Source

Watch = Callable[[list[Source]], AbstractContextManager[Progress]]


def watch_with(progress: bool | Progress | None) -> Watch:
    """True: a bar on stderr. None: one if that is a terminal. A function: called per block."""
    if callable(progress):
        return lambda _: nullcontext(progress)
    if progress is False or (progress is None and not sys.stderr.isatty()):
        return lambda _: nullcontext(_silent)
    return _bar


def _silent(_bytes: int, _rows: int) -> None:
    return None


@contextmanager
def _bar(sources: list[Source]) -> Iterator[Progress]:
    total = sum(source.size for source in sources) or None
    columns = (
        TextColumn("reading"),
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[rows]:,} rows"),
        TimeRemainingColumn(),
    )
    seen = {"bytes": 0, "rows": 0}
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=total, rows=0)

        def watch(bytes_read: int, rows: int) -> None:
            seen["bytes"] += bytes_read
            seen["rows"] += rows
            bar.update(task, completed=seen["bytes"], rows=seen["rows"])

        yield watch

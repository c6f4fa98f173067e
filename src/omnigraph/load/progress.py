"""What a load tells while it reads: how far it is, or numbers to a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from omnigraph.load.prepared import Progress
from omnigraph.load.sources import Source
from omnigraph.progress import tell

Watch = Callable[[Sequence[Source]], Progress]


def watch_with(progress: object) -> Watch:
    """A function is called with (bytes, rows) of every block; otherwise whoever listens hears."""
    if callable(progress):
        return lambda _: progress
    return _told


def _told(sources: Sequence[Source]) -> Progress:
    total = sum(source.size for source in sources) or None
    seen = {"bytes": 0, "rows": 0}

    def watch(bytes_read: int, rows: int) -> None:
        seen["bytes"] += bytes_read
        seen["rows"] += rows
        # Spark knows how many rows there were when it has read them all.
        rows_read = f" {seen['rows']:,} rows" if seen["rows"] else ""
        tell(f"reading{rows_read}", seen["bytes"], total, "MB")

    return watch

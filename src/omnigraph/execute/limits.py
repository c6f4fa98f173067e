"""What one query may use: memory and time; and whether it was cancelled."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from omnigraph.errors import ResourceLimit
from omnigraph.values.clock import SYSTEM_CLOCK, Clock

_ROW_OVERHEAD = 16


def _bytes_of(rows: int, columns: int) -> int:
    return rows * (_ROW_OVERHEAD + 8 * columns)


def megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """Checked between operators, and before an operator makes many rows."""

    memory_bytes: int
    deadline: float | None = None
    """On the monotonic clock."""
    cancelled: threading.Event | None = None
    clock: Clock = SYSTEM_CLOCK

    def check_cancelled(self) -> None:
        if self.cancelled is not None and self.cancelled.is_set():
            raise ResourceLimit("the query was cancelled", limit="cancelled")

    def check(self) -> None:
        if self.deadline is None and self.cancelled is None:
            return
        self.check_cancelled()
        if self.deadline is not None and self.clock.monotonic() > self.deadline:
            raise ResourceLimit(
                "the query ran out of time; narrow it, or give it a longer timeout", limit="timeout"
            )

    def fits(self, rows: int, columns: int) -> bool:
        return _bytes_of(rows, columns) <= self.memory_bytes

    def reserve(self, rows: int, columns: int) -> None:
        """Raise before rows are made that do not fit."""
        self.check()
        needed = _bytes_of(rows, columns)
        if needed > self.memory_bytes:
            raise ResourceLimit(
                f"the query would hold {rows:,} rows at once, about {megabytes(needed)}; its "
                f"budget is {megabytes(self.memory_bytes)}. Narrow it, add a limit or raise "
                "memory_bytes",
                limit="memory",
                rows=rows,
                needed_bytes=needed,
                budget_bytes=self.memory_bytes,
            )

"""Queues inside one process: writers of overlapping resources take turns, others run side by side.

They save retries and are never the authority: that is the intents' job.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from omnigraph.commit.claims import overlap


@dataclass(frozen=True, eq=False, slots=True)
class _Ticket:
    exclusive: frozenset[str]
    shared: frozenset[str]


class Gates:
    """First come, first served among conflicting tickets."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._line: list[_Ticket] = []

    @contextmanager
    def enter(self, exclusive: frozenset[str], shared: frozenset[str]) -> Iterator[None]:
        ticket = _Ticket(exclusive, shared)
        try:
            with self._condition:
                self._line.append(ticket)
                self._condition.wait_for(lambda: self._is_next(ticket))
            yield
        finally:
            # Also for a wait that was cut short: a ticket left behind would close the table for
            # as long as this process lives.
            with self._condition:
                if ticket in self._line:
                    self._line.remove(ticket)
                self._condition.notify_all()

    def _is_next(self, ticket: _Ticket) -> bool:
        for earlier in self._line:
            if earlier is ticket:
                return True
            if overlap(earlier, ticket):
                return False
        return True

"""What a caller asks of an executor: a query with its parameters, and how long it may run."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(slots=True)
class QueryText:
    """A query of a text with its parameters, and the state that it reads.

    It is not changed. It is not frozen, because that would double the cost of making one.
    """

    source: str
    name: str | None = None
    params: Mapping[str, object] | None = None
    at: str | None = None
    """The state in the words of the caller; None means the head of a branch."""
    file: str = "<query>"
    """The name of the text in errors."""
    current: object | None = None
    """The catalog of today, if the text uses its names and not those of the state that it reads."""


@dataclass(slots=True)
class QueryBounds:
    """How long a run may take, and an event that cancels it."""

    timeout: float | None = None
    cancel: threading.Event | None = None

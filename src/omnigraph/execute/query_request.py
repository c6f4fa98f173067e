"""What a caller asks for, before anything of the engine is there."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueryText:
    """Which query of which text, with its parameters, and the state it is asked of."""

    source: str
    name: str | None = None
    params: Mapping[str, object] | None = None
    at: str | None = None
    """As the caller spelt it; None is the head of a branch."""


@dataclass(frozen=True, slots=True)
class QueryBounds:
    """How long one run may take, and who may call it off."""

    timeout: float | None = None
    cancel: threading.Event | None = None

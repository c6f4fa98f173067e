"""An object as a listing shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoredFile:
    """`path` is relative to the graph; `modified` is microseconds on the store's clock."""

    path: str
    size: int
    modified: int

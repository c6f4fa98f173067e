"""Kinds of indexes and what one wanted index is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class IndexKind(StrEnum):
    """Index families; the value ends the name of the stored index."""

    SORTED = "idx"
    FULL_TEXT = "fts"
    SUBSTRING = "ngram"
    LIST = "labels"
    VECTOR = "vec"


DEFAULT_RECALL = 0.95


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """One wanted index. `recall` (at 10) matters for vectors only."""

    column: str
    kind: IndexKind
    recall: float = DEFAULT_RECALL

"""Kinds of indexes, what one wanted index is, and what building it takes."""

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


@dataclass(frozen=True, slots=True)
class IndexBuild:
    """Fragments of one dataset version that an index does not cover yet; any process can do it."""

    spec: IndexSpec
    name: str
    fragments: tuple[int, ...]
    rows: tuple[int, ...]
    """Of each fragment, without deleted ones."""
    extends: bool = False
    """The index is there; what is built becomes a further segment of it."""
    starts_over: bool = False
    """What is built replaces everything that the index has."""


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """A build and the segments that were made for it, over all of its fragments.

    Each is what `lance_store.index_builds.build_segment` returned. None at all: its rows hold
    nothing that the index could know.
    """

    build: IndexBuild
    segments: tuple[bytes, ...]

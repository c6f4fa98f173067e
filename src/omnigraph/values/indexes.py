"""Indexes as data: their kinds, one index that a table wants, and the work of building it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class IndexKind(StrEnum):
    """Index families. The value is the suffix of the stored index's name."""

    SORTED = "idx"
    FULL_TEXT = "fts"
    SUBSTRING = "ngram"
    LIST = "labels"
    VECTOR = "vec"


DEFAULT_RECALL = 0.95


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """One index that a table wants. `recall` (at 10) applies to vectors only."""

    column: str
    kind: IndexKind
    recall: float = DEFAULT_RECALL


@dataclass(frozen=True, slots=True)
class IndexBuild:
    """Fragments of one dataset version that an index does not cover yet.

    Any process can build them: nothing here depends on the process that planned the build.
    """

    spec: IndexSpec
    name: str
    fragments: tuple[int, ...]
    rows: tuple[int, ...]
    """Rows of each fragment, deleted rows not counted."""
    extends: bool = False
    """The index exists; the build adds a segment to it."""
    starts_over: bool = False
    """The build replaces all segments of the index."""


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """A build and the segments made for all of its fragments.

    Each segment is a result of `build_segment` of `lance_store`. There are no segments when the
    rows hold no value that can be indexed.
    """

    build: IndexBuild
    segments: tuple[bytes, ...]

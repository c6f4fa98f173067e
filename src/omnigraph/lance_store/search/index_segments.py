"""Indexes of one dataset version: what is there, what it covers, what it is called."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph.lance_store.store import Dataset
from omnigraph.values.indexes import IndexKind, IndexSpec


@dataclass(frozen=True, slots=True)
class PresentIndex:
    """An index of the dataset with all its segments."""

    name: str
    segments: tuple[Any, ...]
    covered: frozenset[int]
    """Fragment ids."""

    @property
    def probes(self) -> int:
        """Partitions a vector query must look into; part of the name, see `probed_name`."""
        return int(self.name.rpartition("_p")[2])


def index_name(column: str, kind: IndexKind = IndexKind.SORTED) -> str:
    return f"{column}_{kind.value}"


def probed_name(column: str, probes: int) -> str:
    """A vector index carries its calibrated probe count in its name.

    The name is the one thing about an index that Lance keeps for us, forks and restores with the
    manifest, and lets us choose after the segment has been measured.
    """
    return f"{index_name(column, IndexKind.VECTOR)}_p{probes}"


def find_index(dataset: Dataset, column: str, kind: IndexKind) -> PresentIndex | None:
    """By field and kind: after a rename of the column the index keeps its old name."""
    suffix = re.compile(rf"_{kind.value}(_p\d+)?$")
    for index in dataset.describe_indices():
        if index.field_names == [column] and suffix.search(index.name):
            segments = tuple(index.segments)
            covered = frozenset(f for s in segments for f in s.fragment_ids)
            return PresentIndex(index.name, segments, covered)
    return None


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a table one wanted index covers. `built` is False while there is none."""

    column: str
    kind: IndexKind
    built: bool
    covered_rows: int
    pending_rows: int


def coverage(dataset: Dataset, specs: Sequence[IndexSpec]) -> tuple[Coverage, ...]:
    """Live rows inside and outside the fragments of each index."""
    rows = {f.fragment_id: f.count_rows() for f in dataset.get_fragments()}
    total = sum(rows.values())
    found = []
    for spec in specs:
        index = find_index(dataset, spec.column, spec.kind)
        covered = sum(rows.get(f, 0) for f in index.covered) if index else 0
        found.append(Coverage(spec.column, spec.kind, index is not None, covered, total - covered))
    return tuple(found)


def uncovered_rows(dataset: Dataset, column: str) -> int:
    """Rows that a lookup of one value of the column has to scan."""
    (found,) = coverage(dataset, [IndexSpec(column, IndexKind.SORTED)])
    return found.pending_rows

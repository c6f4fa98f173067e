"""Indexes of one dataset version: their names, the rows that they cover, and whether they agree."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lance_store.objects.storage_errors import snapshot_errors
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
        """Partitions that a vector query must search; `probed_name` puts it into the name."""
        return int(self.name.rpartition("_p")[2])


def index_name(column: str, kind: IndexKind = IndexKind.SORTED) -> str:
    return f"{column}_{kind.value}"


def probed_name(column: str, probes: int) -> str:
    """The name of a vector index, with its calibrated number of probes.

    Lance keeps the name in the manifest, so it is forked and restored with the index, and it can be
    chosen after the segment was measured. Lance keeps nothing else for us.
    """
    return f"{index_name(column, IndexKind.VECTOR)}_p{probes}"


_Found = dict[tuple[str, IndexKind], PresentIndex | None]
_known: WeakKeyDictionary[Dataset, tuple[int, _Found]] = WeakKeyDictionary()


def find_index(dataset: Dataset, column: str, kind: IndexKind) -> PresentIndex | None:
    """Found by field and kind, because an index keeps its name when its column is renamed.

    It is kept for each open version, because a search in a small index is as fast as listing them.
    """
    version, found = _known.get(dataset, (None, {}))
    if version != dataset.version:
        found = {}
        _known[dataset] = dataset.version, found
    if (column, kind) not in found:
        found[column, kind] = _described(dataset, column, kind)
    return found[column, kind]


def _described(dataset: Dataset, column: str, kind: IndexKind) -> PresentIndex | None:
    suffix = re.compile(rf"_{kind.value}(_p\d+)?$")
    for index in dataset.describe_indices():
        if index.field_names == [column] and suffix.search(index.name):
            segments = tuple(index.segments)
            covered = frozenset(f for s in segments for f in s.fragment_ids)
            return PresentIndex(index.name, segments, covered)
    return None


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a table one wanted index covers. `built` is False when it does not exist."""

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


class Uncovered(NamedTuple):
    """What a lookup by a column has to scan, because no index covers it."""

    rows: int
    fragments: int


def uncovered(dataset: Dataset, column: str) -> Uncovered:
    index = find_index(dataset, column, IndexKind.SORTED)
    covered = frozenset[int]() if index is None else index.covered
    outside = [f for f in dataset.get_fragments() if f.fragment_id not in covered]
    return Uncovered(sum(f.count_rows() for f in outside), len(outside))


# Looking up this many values, each in two groups, takes less than a second.
_CHEAP_VALUES = 2500


def disagreeing_values(dataset: Dataset, column: str, *, full: bool) -> tuple[list[Any], bool]:
    """(values that a sorted index and a scan count differently, whether all values were compared).

    Values are looked up in groups. An error that swaps two values shows only when they are in
    different groups, so each value is in two groups, and no two values share both. Of many values
    an even sample is compared, unless `full`.
    """
    with snapshot_errors(f"comparing the index on {column} with a scan"):
        scanned = dataset.scanner(columns=[column], use_scalar_index=False).to_table()[column]
        counted = pc.value_counts(scanned.combine_chunks().drop_null())
        values, counts = counted.field("values"), counted.field("counts")
        exact = full or len(values) <= _CHEAP_VALUES
        if not exact:
            picks = pa.array(np.linspace(0, len(values) - 1, _CHEAP_VALUES).astype(np.int64))
            values, counts = values.take(picks), counts.take(picks)
        wrong: Counter[Any] = Counter()
        for group in _groups(len(values)):
            chosen = values.take(pa.array(group))
            expected = dict(
                zip(chosen.to_pylist(), counts.take(pa.array(group)).to_pylist(), strict=True)
            )
            found = _through_index(dataset, column, chosen)
            wrong.update(v for v, count in expected.items() if v == v and found.get(v) != count)
    return list(wrong), exact


def _groups(count: int) -> Iterator[Sequence[int]]:
    """Positions in runs, and again in strides. No two positions share a run and a stride."""
    size = max(1, math.isqrt(count))
    yield from (range(start, min(start + size, count)) for start in range(0, count, size))
    stride = -(-count // size)
    yield from (range(start, count, stride) for start in range(min(stride, count)))


def _through_index(dataset: Dataset, column: str, values: pa.Array) -> dict[Any, int]:
    found = dataset.scanner(columns=[column], filter=pc.field(column).isin(values)).to_table()
    counted = pc.value_counts(found.column(column)).to_pylist()
    return {entry["values"]: entry["counts"] for entry in counted}

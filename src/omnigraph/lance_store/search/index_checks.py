"""Whether a sorted index finds what a scan finds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lance_store.objects.storage_errors import snapshot_errors
from omnigraph.lance_store.store import Dataset

# Looking up so many values, each in two groups, takes less than a second.
_CHEAP_VALUES = 2500


def disagreeing_values(dataset: Dataset, column: str, *, full: bool) -> tuple[list[Any], bool]:
    """(values that index and scan count differently, whether all stored values were compared).

    Values are looked up in groups. Two values that an index takes for each other would hide in one
    group, so each value is in two, and no two values share both. Of many values only an even sample
    is compared unless `full`.
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
    """Runs, then strides: two positions that share a run never share a stride."""
    size = max(1, math.isqrt(count))
    yield from (range(start, min(start + size, count)) for start in range(0, count, size))
    stride = -(-count // size)
    yield from (range(start, count, stride) for start in range(min(stride, count)))


def _through_index(dataset: Dataset, column: str, values: pa.Array) -> dict[Any, int]:
    found = dataset.scanner(columns=[column], filter=pc.field(column).isin(values)).to_table()
    counted = pc.value_counts(found.column(column)).to_pylist()
    return {entry["values"]: entry["counts"] for entry in counted}

"""Whether a sorted index finds what a scan finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc

from omnigraph.lance_store.storage_errors import snapshot_errors
from omnigraph.lance_store.store import Dataset

_SAMPLE = 50


def disagreeing_values(dataset: Dataset, column: str) -> list[Any]:
    """Values, out of an even sample of those stored, that index and scan count differently."""
    with snapshot_errors(f"comparing the index on {column} with a scan"):
        stored = pc.unique(dataset.scanner(columns=[column]).to_table().column(column).drop_null())
        if len(stored) == 0:
            return []
        picks = np.unique(np.linspace(0, len(stored) - 1, _SAMPLE).astype(np.int64))
        sample = stored.take(picks)
        counts = [_counts(dataset, column, sample, indexed) for indexed in (True, False)]
        values = sample.to_pylist()
    return [value for value in values if counts[0].get(value) != counts[1].get(value)]


def _counts(dataset: Dataset, column: str, sample: Any, indexed: bool) -> dict[Any, int]:
    scanner = dataset.scanner(
        columns=[column], filter=pc.field(column).isin(sample), use_scalar_index=indexed
    )
    counted = pc.value_counts(scanner.to_table().column(column)).to_pylist()
    return {entry["values"]: entry["counts"] for entry in counted}

"""Integer kernels of traversal, in numpy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]


def compress(keys: Ints, count: int) -> tuple[Offsets, npt.NDArray[np.int64]]:
    """(row offsets, order): entries grouped by key, keeping their order within a key."""
    order = np.argsort(keys, kind="stable")
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(keys, minlength=count), out=offsets[1:])
    return offsets, order


def expand(offsets: Offsets, sources: Ints) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """For every entry of every source: (row in `sources`, index into the neighbour arrays)."""
    starts = offsets[sources]
    counts = offsets[sources + 1] - starts
    total = int(counts.sum())
    rows = np.repeat(np.arange(len(sources)), counts)
    if total == 0:
        return rows, np.empty(0, np.int64)
    before = np.cumsum(counts) - counts
    entries = np.arange(total) + np.repeat(starts - before, counts)
    return rows, entries


def degrees(offsets: Offsets, sources: Ints) -> npt.NDArray[np.int64]:
    return offsets[sources + 1] - offsets[sources]


def unique_sorted(values: Ints, size: int) -> Ints:
    """Distinct values ascending; a bitmap when there are many of them, a sort when few."""
    if len(values) * 16 < size:
        return np.unique(values)
    seen = np.zeros(size, bool)
    seen[values] = True
    return np.flatnonzero(seen).astype(np.int32)

"""Compare rewritten rows with the stored ones: which of them differ?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]


def differing_rows(stored: pa.Table, written: pa.Table) -> Mask:
    """Row by row: some column of `written` has another value than the same row of `stored`."""
    differs = np.zeros(written.num_rows, dtype=bool)
    for name in written.column_names:
        if differs.all():
            break
        differs |= differing_values(stored.column(name), written.column(name))
    return differs


def nulled_values(stored: pa.Table, written: pa.Table) -> int:
    """How many values of `stored` are NULL in the same row and column of `written`."""
    return sum(
        pc.sum(pc.and_(stored.column(name).is_valid(), written.column(name).is_null())).as_py() or 0
        for name in written.column_names
        if written.column(name).null_count
    )


def differing_values(a: pa.ChunkedArray, b: pa.ChunkedArray) -> Mask:
    """Value by value; NULL equals NULL and NaN equals NaN here."""
    if a.equals(b):
        return np.zeros(len(a), dtype=bool)
    if pa.types.is_fixed_size_list(a.type) and not a.null_count and not b.null_count:
        return _differing_vectors(a, b)
    if pa.types.is_nested(a.type):
        # Lists have no vectorised comparison.
        pairs = zip(a.to_pylist(), b.to_pylist(), strict=True)
        return np.array([not _same(x, y) for x, y in pairs], dtype=bool)
    unequal = pc.fill_null(pc.not_equal(a, b), False)
    if pa.types.is_floating(a.type):
        both_nan = pc.fill_null(pc.and_(pc.is_nan(a), pc.is_nan(b)), False)
        unequal = pc.and_(unequal, pc.invert(both_nan))
    one_null = pc.xor(a.is_null(), b.is_null())
    return np.asarray(pc.or_(unequal, one_null).to_numpy(zero_copy_only=False), dtype=bool)


def _differing_vectors(a: pa.ChunkedArray, b: pa.ChunkedArray) -> Mask:
    left, right = (
        pc.list_flatten(v).to_numpy(zero_copy_only=False).reshape(len(v), a.type.list_size)
        for v in (a, b)
    )
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    return np.asarray(~same.all(axis=1), dtype=bool)


def _same(x: object, y: object) -> bool:
    if isinstance(x, float) and isinstance(y, float):
        return x == y or (x != x and y != y)
    if isinstance(x, list) and isinstance(y, list):
        return len(x) == len(y) and all(map(_same, x, y))
    return x == y

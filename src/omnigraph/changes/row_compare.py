"""Which of the rewritten rows really differ from what is stored."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def differing_rows(stored: pa.Table, written: pa.Table) -> npt.NDArray[np.bool_]:
    """Row by row: some column of `written` has another value than the same row of `stored`."""
    differs = np.zeros(written.num_rows, dtype=bool)
    for name in written.column_names:
        differs |= _differs(stored.column(name), written.column(name))
    return differs


def _differs(a: pa.ChunkedArray, b: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    if pa.types.is_nested(a.type) or pa.types.is_floating(a.type):
        # Lists have no vectorised comparison, and NaN must equal itself here.
        pairs = zip(a.to_pylist(), b.to_pylist(), strict=True)
        return np.array([not _same(x, y) for x, y in pairs], dtype=bool)
    unequal = pc.fill_null(pc.not_equal(a, b), False)
    one_null = pc.xor(a.is_null(), b.is_null())
    return np.asarray(pc.or_(unequal, one_null).to_numpy(zero_copy_only=False), dtype=bool)


def _same(x: object, y: object) -> bool:
    if isinstance(x, float) and isinstance(y, float):
        return x == y or (x != x and y != y)
    return x == y

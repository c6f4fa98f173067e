"""Tuples of any types as integers: equal tuples, equal codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Codes = npt.NDArray[np.int64]


def tuple_codes(columns: Sequence[pa.Array | pa.ChunkedArray]) -> Codes:
    """One code per row over columns of equal length without NULLs."""
    codes = _codes(columns[0])
    for column in columns[1:]:
        more = _codes(column)
        size = int(more.max(initial=0)) + 1
        if int(codes.max(initial=0)) > (2**62) // size:
            codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
        codes = codes * size + more
    return codes


def _codes(column: Any) -> Codes:
    if pa.types.is_nested(column.type):
        known: dict[Any, int] = {}
        values = (tuple(v) for v in column.to_pylist())
        return np.fromiter((known.setdefault(v, len(known)) for v in values), np.int64, len(column))
    if pa.types.is_floating(column.type):
        column = pc.add(column, pa.scalar(0.0, column.type))  # -0.0 equals 0.0
    combined = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(combined, pa.ChunkedArray):
        combined = pa.concat_arrays(combined.chunks)
    indices = combined.dictionary_encode().indices
    return np.asarray(indices.to_numpy(zero_copy_only=False), np.int64)

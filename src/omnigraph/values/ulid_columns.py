"""Fresh ids by the million: ULIDs as an Arrow column."""

from __future__ import annotations

import secrets

import numpy as np
import pyarrow as pa
from ulid import ULID

_ALPHABET = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LENGTH = 26
_COUNTED_PAIRS = 4
"""Pairs of base-32 digits that count up; before them are time and randomness of the column."""

_PAIRS = np.frombuffer(bytes(c for a in _ALPHABET for b in _ALPHABET for c in (a, b)), np.uint16)
"""0..1023 as two digits."""


def new_ulids(count: int) -> pa.Array:
    """`count` distinct ULIDs of this moment, ascending."""
    pairs = np.empty((count, _LENGTH // 2), dtype=np.uint16)
    pairs[:] = np.frombuffer(str(ULID()).encode(), dtype=np.uint16)
    start = secrets.randbelow(1 << (10 * _COUNTED_PAIRS - 1))
    numbers = np.arange(start, start + count, dtype=np.int64)
    for place in range(_COUNTED_PAIRS):
        pairs[:, -1 - place] = _PAIRS[(numbers >> (10 * place)) & 1023]
    offsets = np.arange(0, (count + 1) * _LENGTH, _LENGTH, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(pairs)]
    return pa.Array.from_buffers(pa.string(), count, buffers)

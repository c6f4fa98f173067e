"""Fresh ids by the million: ULIDs as an Arrow column."""

from __future__ import annotations

import secrets

import numpy as np
import pyarrow as pa
from ulid import ULID

_ALPHABET = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", dtype=np.uint8)
_LENGTH = 26
_COUNTED = 8
"""Base-32 digits that count up; the 18 before them are the time and randomness of the column."""


def new_ulids(count: int) -> pa.Array:
    """`count` distinct ULIDs of this moment, ascending."""
    digits = np.empty((count, _LENGTH), dtype=np.uint8)
    digits[:] = np.frombuffer(str(ULID()).encode(), dtype=np.uint8)
    start = secrets.randbelow(1 << (5 * _COUNTED - 1))
    numbers = np.arange(start, start + count, dtype=np.int64)
    for place in range(_COUNTED):
        digit = (numbers >> (5 * place)) & 31
        digits[:, _LENGTH - 1 - place] = _ALPHABET[digit]
    offsets = np.arange(0, (count + 1) * _LENGTH, _LENGTH, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(digits.tobytes())]
    return pa.Array.from_buffers(pa.string(), count, buffers)

"""Ids of entities: spelled from the key of a keyed type, or fresh ULIDs for a type without one."""

from __future__ import annotations

import datetime as dt
import json
import math
import secrets
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from ulid import ULID

from omnigraph.errors import InvalidArgument
from omnigraph.values.temporal import EPOCH, EPOCH_DAY

_ALPHABET = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LENGTH = 26
_COUNTED_PAIRS = 4
"""Pairs of base-32 digits that count up. The digits before them hold the time and the randomness
of the column."""

_PAIRS = np.frombuffer(bytes(c for a in _ALPHABET for b in _ALPHABET for c in (a, b)), np.uint16)
"""The numbers 0 to 1023, each as two digits."""


def canonical_text(value: object) -> str:
    """The canonical text of one key value. Equal numbers have the same text in every type."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return value
        case float():
            return _canonical_float(value)
        case dt.datetime():
            moment = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
            return str((moment - EPOCH) // dt.timedelta(milliseconds=1))
        case dt.date():
            return str((value - EPOCH_DAY).days)
        case _:
            raise InvalidArgument(f"{value!r} cannot be part of a key", value=repr(value))


def _canonical_float(value: float) -> str:
    if not math.isfinite(value):
        raise InvalidArgument(
            f"{value} cannot be part of a key: it is not finite", value=str(value)
        )
    if value == 0:
        return "0"
    if value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    return repr(value)


def entity_id(values: Sequence[object]) -> str:
    """The id of a keyed entity; `values` are in the order of the key's properties."""
    texts = [canonical_text(value) for value in values]
    if len(texts) == 1:
        return texts[0]
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":"))


def new_ulids(count: int) -> pa.Array:
    """A column of `count` distinct ULIDs of this moment, ascending."""
    first = np.array(np.frombuffer(str(ULID()).encode(), dtype=np.uint16))
    start = secrets.randbelow(1 << (10 * _COUNTED_PAIRS - 1))
    for place in range(_COUNTED_PAIRS):
        first[-1 - place] = _PAIRS[(start >> (10 * place)) & 1023]
    # The last pair counts through all its numbers in a block, in which no other pair changes.
    block = np.empty((len(_PAIRS), _LENGTH // 2), dtype=np.uint16)
    block[:] = first
    block[:, -1] = _PAIRS
    before = start % len(_PAIRS)
    numbers = start // len(_PAIRS) + np.arange((before + count) // len(_PAIRS) + 1)
    pairs = np.empty((len(numbers), *block.shape), dtype=np.uint16)
    pairs[:] = block
    for place in range(1, _COUNTED_PAIRS):
        counts = numbers >> (10 * (place - 1))
        if counts[0] == counts[-1]:
            break  # the pairs before it are equal in all ids, too
        pairs[:, :, -1 - place] = _PAIRS[counts & 1023][:, np.newaxis]
    ids = pairs.reshape(-1, _LENGTH // 2)[before : before + count]
    offsets = np.arange(0, (count + 1) * _LENGTH, _LENGTH, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(ids)]
    return pa.Array.from_buffers(pa.string(), count, buffers)

"""Find ids in a sorted Arrow array: one id by binary search, many integer ids by a table.

The binary search compares bytes and makes no Python strings. Ids that spell integers are found by a
table of numbers, in half the time of hashing texts.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execute.topology.id_changes import MISSING, Positions

Numbers = npt.NDArray[np.int64]

# This many ids are kept as Python bytes, so that one call does the first steps of a search.
_SIGNPOSTS = 1024
_SIGNPOST_BYTES = 64


class SortedIds:
    """A view of an Arrow string array. UTF-8 bytes are ordered as code points are."""

    def __init__(self, ids: pa.Array) -> None:
        _, ends, texts = ids.buffers()
        self._count = len(ids)
        if len(ids) == 0:
            self._ends = memoryview(b"").cast("i")
        elif pa.types.is_large_string(ids.type):
            self._ends = memoryview(ends).cast("q")[ids.offset :]
        else:
            self._ends = memoryview(ends).cast("i")[ids.offset :]
        self._texts = memoryview(texts) if texts is not None else memoryview(b"")
        self._stride = max(1, len(ids) // _SIGNPOSTS)
        self._signposts = [self._at(place) for place in range(0, len(ids), self._stride)]

    def rank(self, wanted: str) -> tuple[int, bool]:
        """The number of smaller ids, and whether the id exists."""
        # No stored id has a lone surrogate, but its bytes have a place in the order.
        key = wanted.encode("utf-8", "surrogatepass")
        after = bisect_right(self._signposts, key)
        if after == 0:
            return 0, False
        low = (after - 1) * self._stride
        high = min(low + self._stride, self._count)
        ends, texts = self._ends, self._texts
        while low < high:
            middle = (low + high) // 2
            found = texts[ends[middle] : ends[middle + 1]].tobytes()
            if found < key:
                low = middle + 1
            elif found == key:
                return middle, True
            else:
                high = middle
        return low, False

    @property
    def own_bytes(self) -> int:
        return len(self._signposts) * _SIGNPOST_BYTES

    def _at(self, place: int) -> bytes:
        return self._texts[self._ends[place] : self._ends[place + 1]].tobytes()


# The table has a place for every number between the smallest and the largest.
_PLACES_PER_ID = 8
# So many ids are found at once, because their numbers then stay in the cache of a processor.
_AT_ONCE = 1 << 17
_POWERS = 10 ** np.arange(1, 19, dtype=np.int64)
# The smallest number that has so many digits. No number has none, or more than 19.
_LEAST = np.array([2**64 - 1, 0, *_POWERS.tolist(), 2**64 - 1], np.uint64)


@dataclass(frozen=True, slots=True)
class IntegerTable:
    """Ids that spell dense integers: the position of each number.

    The last entry is for every number that is not an id. Every id is the shortest spelling of its
    number.
    """

    low: int
    high: int
    positions: Positions

    @staticmethod
    def of(ids: pa.Array) -> IntegerTable | None:
        """None when the ids are not dense integers."""
        if not len(ids):
            return None
        keys = _numbers(ids)
        if keys is None or _is_longer(ids, keys).any() or _is_hex(ids).any():
            return None
        low, high = int(keys.min()), int(keys.max())
        if high - low > _PLACES_PER_ID * len(keys):
            return None
        places = keys - low
        positions = np.full(high - low + 2, MISSING, np.int32)
        positions[places] = np.arange(len(keys), dtype=np.int32)
        return IntegerTable(low, high, positions)

    def find(self, ids: pa.Array) -> Positions | None:
        """The position of each text, or MISSING; None when one of them is no number."""
        if not len(ids):
            return np.empty(0, np.int32)
        if ids.null_count:
            return None
        found = np.empty(len(ids), np.int32)
        for start in range(0, len(ids), _AT_ONCE):
            part = self._find_some(ids.slice(start, _AT_ONCE))
            if part is None:
                return None
            found[start : start + _AT_ONCE] = part
        return found

    def _find_some(self, ids: pa.Array) -> Positions | None:
        wanted = _numbers(ids)
        if wanted is None:
            return None
        # Another spelling of the same number ("07", "+7") is longer and is another id.
        other = _is_longer(ids, wanted)
        if int(wanted.min()) < self.low or int(wanted.max()) > self.high:
            outside = (wanted < self.low) | (wanted > self.high)
            wanted = np.where(outside, self.high + 1, wanted)
        found: Positions = self.positions.take(wanted if self.low == 0 else wanted - self.low)
        if _may_be_hex(ids):
            other |= _is_hex(ids)
        if other.any():
            found[other] = MISSING
        return found


def find_integers(ids: pa.Array, among: pa.Array) -> Positions | None:
    """Positions of `ids` in `among`, or MISSING; None when the ids are not dense integers."""
    if ids.null_count or not len(ids) or _numbers(ids[:1]) is None:
        return None
    table = IntegerTable.of(among)
    return None if table is None else table.find(ids)


def _numbers(texts: pa.Array) -> Numbers | None:
    try:
        # Arrow does not stop at the first text that is no number: try two texts first.
        pa.concat_arrays([texts[:1], texts[-1:]]).cast(pa.int64())
        return np.asarray(texts.cast(pa.int64()).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:
        return None


def _may_be_hex(texts: pa.Array) -> bool:
    """Whether a letter is an X. Looking at all of them at once is faster than at each text."""
    _, ends, letters = texts.buffers()
    kind = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    starts = np.frombuffer(ends, kind)
    first, last = starts[texts.offset], starts[texts.offset + len(texts)]
    read = memoryview(letters)[first:last].tobytes()
    return b"x" in read or b"X" in read


def _is_hex(texts: pa.Array) -> npt.NDArray[np.bool_]:
    """Arrow also reads "0xFFFF00" as a number, and the text is as long as 16776960."""
    either = pc.or_(pc.starts_with(texts, "0x"), pc.starts_with(texts, "0X"))
    return np.asarray(either.to_numpy(zero_copy_only=False))


def _is_longer(texts: pa.Array, numbers: Numbers) -> npt.NDArray[np.bool_]:
    """Whether a text is longer than the shortest spelling of its number."""
    lengths = np.asarray(pc.binary_length(texts).to_numpy(zero_copy_only=False))
    if int(numbers.min()) >= 0:
        return np.asarray(numbers.view(np.uint64) < _LEAST.take(lengths, mode="clip"))
    digits = np.searchsorted(_POWERS, np.abs(numbers), side="right") + 1
    return np.asarray(lengths != digits + (numbers < 0))

"""Find one id among sorted ones: a binary search over the bytes, without making Python strings."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execute.topology.id_changes import MISSING, Positions

Numbers = npt.NDArray[np.int64]

# The table has a place for every number between the smallest and the largest.
_PLACES_PER_ID = 8
_POWERS = 10 ** np.arange(1, 19, dtype=np.int64)


def find_integers(ids: pa.Array, among: pa.Array) -> Positions | None:
    """Positions of `ids` in `among`, MISSING where there is none; None when this is not the way."""
    if ids.null_count or not len(ids) or not len(among):
        return None
    keys = _numbers(among)
    if keys is None or (_lengths(among) != _digits(keys)).any() or _is_hex(among).any():
        return None
    low, high = int(keys.min()), int(keys.max())
    if high - low > _PLACES_PER_ID * len(keys):
        return None
    wanted = _numbers(ids)
    if wanted is None:
        return None
    table = np.full(high - low + 2, MISSING, np.int32)
    table[keys - low] = np.arange(len(keys), dtype=np.int32)
    outside = (wanted < low) | (wanted > high)
    if outside.any():
        wanted = np.where(outside, high + 1, wanted)
    found: Positions = table[wanted - low]
    # Another spelling of the same number ("07", "+7") is longer: it is not that id.
    found[(_lengths(ids) != _lengths(among)[found]) | _is_hex(ids)] = MISSING
    return found


def _numbers(texts: pa.Array) -> Numbers | None:
    try:
        # Arrow reads on after the first text that is none: look at two before.
        pa.concat_arrays([texts[:1], texts[-1:]]).cast(pa.int64())
        return np.asarray(texts.cast(pa.int64()).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:
        return None


def _is_hex(texts: pa.Array) -> npt.NDArray[np.bool_]:
    """To Arrow "0xFFFF00" is a number too, and it is as long as 16776960."""
    either = pc.or_(pc.starts_with(texts, "0x"), pc.starts_with(texts, "0X"))
    return np.asarray(either.to_numpy(zero_copy_only=False))


def _lengths(texts: pa.Array) -> npt.NDArray[np.integer]:
    return np.asarray(pc.binary_length(texts).to_numpy(zero_copy_only=False))


def _digits(numbers: Numbers) -> Numbers:
    """How long the shortest spelling is."""
    places = np.searchsorted(_POWERS, np.abs(numbers), side="right") + 1
    return places + (numbers < 0)


# So many ids are kept as Python bytes: the first steps of a search are one call.
_SIGNPOSTS = 1024
_SIGNPOST_BYTES = 64


class SortedIds:
    """A view of an Arrow string array; UTF-8 bytes have the order of the code points."""

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
        """How many ids are smaller, and whether it is one of them."""
        # A lone surrogate is in no stored id; its bytes still have a place in the order.
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

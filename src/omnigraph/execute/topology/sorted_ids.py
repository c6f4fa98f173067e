"""Find one id among sorted ones: a binary search over the bytes, without making Python strings."""

from __future__ import annotations

from bisect import bisect_right

import pyarrow as pa

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

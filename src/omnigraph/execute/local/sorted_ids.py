"""Find one id among sorted ones: a binary search over the bytes, without making Python strings."""

from __future__ import annotations

import pyarrow as pa


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

    def rank(self, wanted: str) -> tuple[int, bool]:
        """How many ids are smaller, and whether it is one of them."""
        # A lone surrogate is in no stored id; its bytes still have a place in the order.
        key = wanted.encode("utf-8", "surrogatepass")
        ends, texts = self._ends, self._texts
        low, high = 0, self._count
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

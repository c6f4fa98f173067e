"""Sort many texts, as ids are: by words of eight bytes, several times faster than by comparing."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Order = npt.NDArray[np.int64]

# For fewer texts, or longer ones, the sort of Arrow is as fast.
_FEW = 4096
_MOST_WORDS = 8
_WORD = 8
# A word with so many of its first bytes set.
_FIRST_BYTES = np.array([2**64 - 2 ** (64 - 8 * count) for count in range(_WORD + 1)], np.uint64)


def text_order(texts: pa.Array) -> Order:
    """The positions of the texts in ascending order; there is no NULL among them.

    The order is that of UTF-8 bytes, which is the order of code points, and of Arrow and Lance.
    """
    words = _Words(texts) if len(texts) >= _FEW and pa.types.is_string(texts.type) else None
    if words is None or words.count > _MOST_WORDS:
        order: Order = pc.sort_indices(texts).to_numpy().astype(np.int64)
        return order
    first = words.at(0)
    order = np.argsort(first)
    ordered = first[order]
    as_before = np.append(False, ordered[1:] == ordered[:-1])
    tied = np.flatnonzero(as_before | np.append(as_before[1:], False))
    if len(tied) and not (words.count == 1 and words.same_length):
        rows = order[tied]
        # A text that ends sorts before one that goes on, even if it goes on with a zero byte.
        keys = [words.lengths[rows], *(words.at(i)[rows] for i in reversed(range(words.count)))]
        order[tied] = rows[np.lexsort(keys)]
    return order


class _Words:
    """The bytes after the prefix that all texts share, eight at a time, as numbers."""

    def __init__(self, texts: pa.Array) -> None:
        _, offsets, data = texts.buffers()
        ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
        self._bytes = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        lowest, highest = (text.as_py().encode() for text in pc.min_max(texts).values())
        pairs = enumerate(zip(lowest, highest, strict=False))
        self._shared = next((i for i, (a, b) in pairs if a != b), len(lowest))
        self._starts = ends[:-1].astype(np.int64)
        self.lengths: npt.NDArray[np.int64] = ends[1:] - self._starts
        self._longest = int(self.lengths.max())
        self.same_length = bool((self.lengths == self._longest).all())
        self.count = max(1, -(-(self._longest - self._shared) // _WORD))

    def at(self, number: int) -> npt.NDArray[np.uint64]:
        """The word of each text; bytes after its end are zero."""
        start = self._shared + number * _WORD
        if self.same_length:
            # Arrow keeps the bytes of neighbouring texts side by side.
            width = min(_WORD, self._longest - start)
            rows = np.zeros((len(self._starts), _WORD), np.uint8)
            first = self._starts[0]
            block = self._bytes[first : first + len(rows) * self._longest]
            rows[:, :width] = block.reshape(len(rows), -1)[:, start : start + width]
            return rows.view(">u8").ravel().astype(np.uint64)
        inside = np.clip(self.lengths - start, 0, _WORD)
        places = np.minimum(self._starts + start, len(self._bytes))
        words: npt.NDArray[np.uint64] = self._word_at_each_byte[places].astype(np.uint64)
        words &= _FIRST_BYTES.take(inside)
        return words

    @cached_property
    def _word_at_each_byte(self) -> npt.NDArray[np.uint64]:
        padded = np.append(self._bytes, np.zeros(_WORD, np.uint8))
        return np.ndarray((len(self._bytes) + 1,), ">u8", padded, strides=(1,))

"""A few values of an Arrow column as Python values, read from its buffers.

For some dozens of rows, `take` and `to_pylist` take several times as long, because each of their
calls has a fixed cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

PlainReader = Callable[[Sequence[int]], list[Any]]
"""Positions -> values, None for NULL."""

# The letters by which a memoryview reads the numbers of a type.
_LETTERS = {
    pa.int32(): "i",
    pa.int64(): "q",
    pa.uint32(): "I",
    pa.uint64(): "Q",
    pa.float32(): "f",
    pa.float64(): "d",
}
_TEXT_ENDS = {pa.string(): "i", pa.large_string(): "q"}


@dataclass(frozen=True, slots=True)
class PlainColumn:
    """The type of a column, and a function that reads some of its values."""

    kind: pa.DataType
    read: PlainReader


def plain_column(column: pa.Array) -> PlainColumn | None:
    """None for a type whose values have a form of their own, such as moments and lists."""
    kind = column.type
    if len(column) == 0:
        return None
    if kind in _TEXT_ENDS:
        read = _texts(column, _TEXT_ENDS[kind])
    elif kind in _LETTERS:
        read = _numbers(column, _LETTERS[kind])
    elif kind == pa.bool_():
        read = _booleans(column)
    else:
        return None
    return PlainColumn(kind, _with_nulls(column, read) if column.null_count else read)


def _texts(column: pa.Array, letter: Any) -> PlainReader:
    _, stored_ends, stored = column.buffers()
    ends = memoryview(stored_ends).cast(letter)[column.offset :]
    texts = memoryview(stored if stored is not None else b"")

    def read(positions: Sequence[int]) -> list[Any]:
        return [texts[ends[p] : ends[p + 1]].tobytes().decode() for p in positions]

    return read


def _numbers(column: pa.Array, letter: Any) -> PlainReader:
    stored = memoryview(column.buffers()[1])
    width = column.type.bit_width // 8
    start = column.offset * width
    numbers = stored[start : start + len(column) * width].cast(letter)

    def read(positions: Sequence[int]) -> list[Any]:
        return [numbers[p] for p in positions]

    return read


def _booleans(column: pa.Array) -> PlainReader:
    is_set = _bits(column, 1)
    return lambda positions: [is_set(p) for p in positions]


def _with_nulls(column: pa.Array, read: PlainReader) -> PlainReader:
    is_valid = _bits(column, 0)

    def read_valid(positions: Sequence[int]) -> list[Any]:
        values = read(positions)
        return [v if is_valid(p) else None for p, v in zip(positions, values, strict=True)]

    return read_valid


def _bits(column: pa.Array, buffer: int) -> Callable[[int], bool]:
    bits, offset = memoryview(column.buffers()[buffer]), column.offset

    def is_set(position: int) -> bool:
        at = position + offset
        return bool(bits[at >> 3] >> (at & 7) & 1)

    return is_set

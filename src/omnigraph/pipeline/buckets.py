"""Spread rows over buckets by a text column, so that equal texts always meet.

A bucket travels as one packed block: Spark then moves a few large values instead of many small
rows, and the work inside a bucket is Arrow's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_WORD = 8
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


def text_hashes(texts: pa.Array) -> npt.NDArray[np.uint64]:
    """A 64-bit hash per text, the same on every machine. Equal hashes prove nothing."""
    plain = texts.cast(pa.large_string())
    _, offset_buffer, data_buffer = plain.buffers()
    count = len(plain)
    offsets = np.frombuffer(offset_buffer, np.int64, count + 1, plain.offset * 8)
    first, last = (int(offsets[0]), int(offsets[-1])) if count else (0, 0)
    data = np.zeros(last - first + _WORD, np.uint8)  # room to read a whole word at the very end
    if last > first:
        data[: last - first] = np.frombuffer(data_buffer, np.uint8, last - first, first)
    words = np.ndarray((len(data) - _WORD + 1,), "<u8", data, strides=(1,))
    starts, lengths = offsets[:-1] - first, np.diff(offsets)
    hashes = lengths.astype(np.uint64) * _MULTIPLIER
    _mix_words(hashes, words, starts, lengths)
    return hashes ^ (hashes >> np.uint64(29))


def _mix_words(
    hashes: npt.NDArray[np.uint64],
    words: npt.NDArray[np.uint64],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
) -> None:
    """All texts a word at a time; those that have ended drop out."""
    rows: npt.NDArray[np.int64] | slice = slice(None)
    at = 0
    while True:
        left = lengths[rows] - at
        if at and not (left > 0).all():
            rows = np.flatnonzero(lengths > at)
            left = lengths[rows] - at
        if len(left) == 0 or (left <= 0).all():
            return
        word = words[starts[rows] + at]
        short = left < _WORD
        bits = (np.clip(left, 0, _WORD - 1) * 8).astype(np.uint64)
        word = np.where(short, word & ((np.uint64(1) << bits) - np.uint64(1)), word)
        mixed = (hashes[rows] ^ word) * _MULTIPLIER
        hashes[rows] = mixed ^ (mixed >> np.uint64(32))
        at += _WORD


def split(table: pa.Table, column: str, buckets: int) -> Iterator[tuple[int, pa.Table]]:
    """(bucket, its rows in their order), for buckets that have rows."""
    if table.num_rows == 0:
        return
    texts = table.column(column)
    chunks = [text_hashes(chunk) for chunk in texts.chunks]
    bucket = (np.concatenate(chunks) % np.uint64(buckets)).astype(np.uint16)
    order = np.argsort(bucket, kind="stable")  # radix sort: 16 bits
    sizes = np.bincount(bucket, minlength=buckets)
    ordered = table.combine_chunks().take(pa.array(order))
    start = 0
    for number, size in enumerate(sizes.tolist()):
        if size:
            yield number, ordered.slice(start, size)
        start += size


def pack(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_COMPRESSED) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpack(blocks: Iterable[bytes | pa.Buffer]) -> pa.Table | None:
    """The rows of all blocks in the order given; None when there is no block."""
    tables = [pa.ipc.open_stream(block).read_all() for block in blocks]
    return pa.concat_tables(tables) if tables else None

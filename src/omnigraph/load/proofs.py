"""Proofs from columns in memory that a rule holds: far cheaper than a join.

True means certain. False means only that the proof failed. The joins of `bulk_checks` then find the
rows that break the rule, if any does. `paired_rows` pairs equal rows in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.writes.row_compare import differing_rows

RowNumbers = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

_WORD = 8
_LONGEST_TEXT = 256
"""Bytes. Hashing takes a pass over the column for every eight bytes of its longest text."""

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xFF51AFD7ED558CCD)
_HALF = np.uint64(32)
_FIRST_BYTES = np.array([(1 << (8 * n)) - 1 for n in range(_WORD + 1)], dtype=np.uint64)


def no_row_twice(rows: pa.Table) -> bool:
    """No two rows are equal; a row with a NULL equals no row."""
    if any(column.null_count for column in rows.columns):
        rows = rows.drop_null()
    hashes = row_hashes(rows.columns)
    if hashes is None:
        return False
    hashes.sort()
    return not bool(np.any(hashes[1:] == hashes[:-1]))


def all_among(columns: Sequence[pa.ChunkedArray], known: Sequence[pa.ChunkedArray]) -> bool:
    """Every text of `columns` is one of `known`."""
    wanted = pa.chunked_array([c for column in columns for c in column.chunks], pa.string())
    there = pa.chunked_array([c for column in known for c in column.chunks], pa.string())
    if len(there) == 0:
        return len(wanted) == 0
    return bool(pc.all(pc.is_in(wanted, value_set=there.combine_chunks()), min_count=0).as_py())


@dataclass(frozen=True, slots=True)
class PairedRows:
    """Rows of two tables that are equal, as row numbers; a row is in one pair at most.

    `left` ascends, because rows that are read in their order are read fast.
    """

    left: RowNumbers
    right: RowNumbers


def paired_rows(left: pa.Table, right: pa.Table) -> PairedRows | None:
    """Pairs of equal rows, as many as possible; NULL equals NULL here.

    The n-th row with some values is paired with the n-th row with these values. None if a column
    cannot be hashed, or if two different rows have one hash.
    """
    ours, theirs = row_hashes(left.columns), row_hashes(right.columns)
    if ours is None or theirs is None:
        return None
    order, their_order = (np.argsort(each, kind="stable") for each in (ours, theirs))
    ours, theirs = ours[order], theirs[their_order]
    first = np.searchsorted(ours, ours)  # of the rows with this hash
    at = np.searchsorted(theirs, ours) + np.arange(len(ours)) - first
    found = at < len(theirs)
    found[found] = theirs[at[found]] == ours[found]
    partner = np.full(len(ours), -1, np.int64)
    partner[order[found]] = their_order[at[found]]
    rows = np.flatnonzero(partner >= 0)
    pairs = PairedRows(rows, partner[rows])
    differs = differing_rows(rows_at(right, pairs.right), rows_at(left, pairs.left))
    return None if differs.any() else pairs


def rows_at(table: pa.Table, rows: RowNumbers) -> pa.Table:
    """These rows; not copied if they are the first ones in their order."""
    if len(rows) == 0 or np.array_equal(rows, np.arange(len(rows))):
        return table.slice(0, len(rows))
    return table.take(pa.array(rows))


def row_hashes(columns: Sequence[pa.ChunkedArray]) -> Hashes | None:
    """One hash per row; None for lists, vectors, blobs and long texts."""
    found: Hashes | None = None
    for column in columns:
        parts = [_of_values(chunk) for chunk in column.chunks]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        hashes = np.concatenate(known) if known else np.empty(0, np.uint64)
        found = hashes if found is None else _mixed(found, hashes)
    return found


def _of_values(chunk: pa.Array) -> Hashes | None:
    if chunk.null_count == 0:
        return _of_chunk(chunk)
    given = chunk.is_valid().to_numpy(zero_copy_only=False)
    hashes = _of_chunk(chunk.filter(pa.array(given)))
    if hashes is None:
        return None
    found = np.full(len(chunk), _SPREAD)
    found[given] = hashes
    return found


def _of_chunk(chunk: pa.Array) -> Hashes | None:
    kind = chunk.type
    if pa.types.is_string(kind):
        return _of_texts(chunk)
    if pa.types.is_integer(kind):
        return _mixed(np.full(len(chunk), _SPREAD), _as_words(chunk.cast(pa.int64(), safe=False)))
    if pa.types.is_boolean(kind):
        return _of_chunk(chunk.cast(pa.int8()))
    if pa.types.is_floating(kind):
        doubles = np.asarray(chunk.cast(pa.float64()).to_numpy(zero_copy_only=False))
        return _of_chunk(pa.array((doubles + 0.0).view(np.int64)))  # -0.0 becomes 0.0
    if pa.types.is_date32(kind):
        return _of_chunk(chunk.view(pa.int32()))
    if pa.types.is_timestamp(kind):
        return _of_chunk(chunk.view(pa.int64()))
    return None


def _as_words(chunk: pa.Array) -> Hashes:
    return np.asarray(chunk.to_numpy(zero_copy_only=False)).view(np.uint64)


def _of_texts(chunk: pa.Array) -> Hashes | None:
    """Hash eight bytes of every text in each pass; None if a text is too long."""
    if len(chunk) == 0:
        return np.empty(0, np.uint64)
    _, offset_buffer, byte_buffer = chunk.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
    lengths = np.diff(offsets).astype(np.int64)
    longest = int(lengths.max())
    if longest > _LONGEST_TEXT:
        return None
    texts = np.zeros(int(offsets[-1] - offsets[0]) + _LONGEST_TEXT + _WORD, np.uint8)
    if byte_buffer is not None:
        given = np.frombuffer(byte_buffer, np.uint8)[offsets[0] : offsets[-1]]
        texts[: len(given)] = given
    words = np.ndarray((len(texts) - _WORD + 1,), np.uint64, texts, strides=(1,))
    starts = (offsets[:-1] - offsets[0]).astype(np.int64)
    hashes = lengths.astype(np.uint64) * _SPREAD
    for start in range(0, longest, _WORD):
        left = np.clip(lengths - start, 0, _WORD)
        hashes = _mixed(hashes, words[starts + start] & _FIRST_BYTES[left])
    return hashes


def _mixed(hashes: Hashes, words: Hashes) -> Hashes:
    mixed: Hashes = (hashes ^ words) * _MIX
    mixed ^= mixed >> _HALF
    return mixed

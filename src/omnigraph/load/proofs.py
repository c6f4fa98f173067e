"""Proofs from hashes that a rule holds: far cheaper than a join, and in little memory.

False means only that the proof failed. The joins of `bulk_checks` then find the rows that break the
rule, if any does. True is certain, with one exception: that every end of an edge is a node is shown
by two independent hashes of 64 bits with random keys. A missing node passes with a probability
below 1e-18, for any number of nodes.

Columns come in chunks, so that they need not be in memory. The ids of a large load are in one hash
table (`IdTable`), if it fits in memory. Else many hashes are kept in files (`IdHashes`), so that a
proof needs the same memory for any number of rows. `paired_rows` pairs equal rows of two tables by
their hashes, and compares them.
"""

from __future__ import annotations

import functools
import importlib
import os
import secrets
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.writes.row_compare import differing_rows

RowNumbers = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

_WORD = 8
_LONGEST_TEXT = 256
"""Bytes. Hashing takes a pass over the column for every eight bytes of its longest text."""
_ROWS_PER_PASS = 256 * 1024
"""About so many texts are hashed and looked up at once: few enough for memory, and enough that
sorted hashes are found near each other."""

HELD_HASHES = 512 * 1024
"""So many hashes by one key, and not more, are held in memory."""
_RANGES = 64
_RANGE_STARTS = np.arange(_RANGES, dtype=np.uint64) << np.uint64(58)
_NO_HASHES = np.empty(0, np.uint64)

_TEXTS_PER_HASHING = 16 * 1024
"""So many texts are hashed at once without compiled loops: arrays of more numbers would be memory
that is new to the process each time, which costs more than the hashing."""
_TEXTS_PER_LOOP = 64 * 1024
"""So many texts are hashed and looked up at once by compiled loops: their hashes stay in a cache of
the processor."""
_MOST_MISSING = 1_000_000
"""If more ends are not stored, the nodes are in the input, and the ends are looked up later."""
_ID_BYTES = 16
"""An id takes so much of a hash table, of which half is free."""

_TABLE_SHARE = 4
"""The hash tables of the ids of one type may take 1/4 of the memory limit."""

_HALF = np.uint64(32)
_FIRST_BYTES = np.array([(1 << (8 * n)) - 1 for n in range(_WORD + 1)], dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class _HashKey:
    """Two odd numbers that make a hash function."""

    spread: np.uint64
    mix: np.uint64


_FIXED = _HashKey(np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFF51AFD7ED558CCD))
_LANES = tuple(
    _HashKey(np.uint64(secrets.randbits(64) | 1), np.uint64(secrets.randbits(64) | 1))
    for _ in range(2)
)
_LANE_KEYS = np.array([(key.spread, key.mix) for key in _LANES])


class HashRuns:
    """Hashes by one key: in memory while they are few, else in a file, as sorted runs.

    The hashes are cut into ranges by their first bits, and one range is in memory at a time.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: list[Hashes] = []
        self._file: IO[bytes] | None = None
        self._cuts: list[npt.NDArray[np.int64]] = []
        """Of each run in the file: where its ranges begin, and where the last one ends."""
        self._length = self._written = 0

    @property
    def is_held(self) -> bool:
        return self._file is None

    def add(self, hashes: Hashes) -> None:
        """Add hashes, which are sorted in place."""
        hashes.sort()
        self._held.append(hashes)
        self._length += len(hashes)
        if self._file is None and self._length > HELD_HASHES:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - closed with the runs
            weakref.finalize(self, self._file.close)
        if self._file is not None:
            for run in self._held:
                self._cuts.append(_cuts(run) + self._written)
                self._file.write(run.data)
                self._written += len(run)
            self._held = []

    def ranges(self) -> Iterator[Hashes]:
        """The hashes of each range, sorted; a range that has none is there, too."""
        if self._file is not None:
            for number in range(_RANGES):
                yield np.sort(np.concatenate([*self.pieces(number), _NO_HASHES]))
            return
        if len(self._held) != 1:
            self._held = [np.sort(np.concatenate([*self._held, _NO_HASHES]))]
        yield from np.split(self._held[0], _cuts(self._held[0])[1:-1])

    def pieces(self, number: int) -> Iterator[Hashes]:
        """The hashes of one range in no order, some at a time."""
        waiting: list[Hashes] = []
        for part in self._parts(number):
            waiting.append(part)
            if sum(map(len, waiting)) >= HELD_HASHES:
                yield np.concatenate(waiting)
                waiting = []
        if waiting:
            yield np.concatenate(waiting)

    def _parts(self, number: int) -> Iterator[Hashes]:
        if self._file is None:
            for run in self._held:
                cuts = _cuts(run)
                yield run[cuts[number] : cuts[number + 1]]
            return
        self._file.flush()
        for cuts in self._cuts:
            first, last = int(cuts[number]), int(cuts[number + 1])
            if last > first:
                size = (last - first) * _WORD
                yield np.frombuffer(os.pread(self._file.fileno(), size, first * _WORD), np.uint64)

    def are_distinct(self) -> bool:
        return all(not np.any(one[1:] == one[:-1]) for one in self.ranges())


def _cuts(run: Hashes) -> npt.NDArray[np.int64]:
    """Where the ranges of a sorted run begin, and where the last one ends."""
    return np.append(np.searchsorted(run, _RANGE_STARTS), len(run))


class DistinctRows:
    """Shows that no two rows are equal, some rows at a time; a row with a NULL equals no row.

    It keeps one hash of each row, many of them in a file in `folder`.
    """

    def __init__(self, folder: Path) -> None:
        self._hashes = HashRuns(folder)
        self._all_hashed = True

    def add(self, rows: pa.Table) -> bool:
        """False if nothing can be proven any more, because some value has no hash."""
        whole = rows.drop_null() if any(c.null_count for c in rows.columns) else rows
        hashes = row_hashes(whole.columns) if self._all_hashed else None
        if hashes is None:
            self._all_hashed = False
        else:
            self._hashes.add(hashes)
        return self._all_hashed

    def are_distinct(self) -> bool:
        """Proven: no two rows are equal."""
        return self._all_hashed and self._hashes.are_distinct()


def no_row_twice(chunks: Iterable[pa.Table], folder: Path) -> bool:
    """No two rows are equal; a row with a NULL equals no row. Many hashes go to `folder`."""
    found = DistinctRows(folder)
    return all(found.add(chunk) for chunk in chunks) and found.are_distinct()


class IdSet(Protocol):
    """Ids as two hashes each, for ids of any length."""

    are_distinct: bool

    def has_none(self, chunks: Iterable[pa.ChunkedArray], folder: Path) -> bool:
        """Certain: no text of `chunks` is in the set."""


class IdHashes:
    """An `IdSet` that needs little memory for any number of ids."""

    def __init__(self, lanes: Sequence[HashRuns]) -> None:
        self.lanes = tuple(lanes)
        """The hashes of all ids, once by each key of `_LANES`."""
        self.are_distinct = lanes[0].are_distinct()

    @classmethod
    def of(cls, chunks: Iterable[pa.ChunkedArray], folder: Path) -> IdHashes | None:
        """The set of these ids, without NULLs; None if an id is too long.

        Many hashes are kept in a file in `folder`.
        """
        lanes = _lanes_of(chunks, folder, _LANES)
        return None if lanes is None else cls(lanes)

    @property
    def is_held(self) -> bool:
        """The hashes are in memory."""
        return all(lane.is_held for lane in self.lanes)

    def has_none(self, chunks: Iterable[pa.ChunkedArray], folder: Path) -> bool:
        if self.is_held:
            (known,) = _sorted_lane([self], 0)
            for texts in _passes(chunks):
                hashes = _of_texts(texts, _LANES[0])
                if hashes is None or _found(known, hashes).any():
                    return False
            return True
        given = _lanes_of(chunks, folder, _LANES[:1])
        if given is None:
            return False
        return not any(
            _found(known, hashes).any()
            for number, known in enumerate(self.lanes[0].ranges())
            for hashes in given[0].pieces(number)
        )


class IdTable:
    """An `IdSet` in one hash table in memory, for many ids: the loops over it are compiled."""

    def __init__(self, most: int) -> None:
        """For `most` ids."""
        self._room = most
        self._slots = np.zeros(most * _ID_BYTES // _WORD + 1, np.uint64)
        self.are_distinct = True

    @staticmethod
    def fits(count: int, memory_bytes: int) -> bool:
        """Whether a load with this limit of memory may hold so many ids in tables."""
        return count * _ID_BYTES * _TABLE_SHARE <= memory_bytes

    @classmethod
    def of(cls, chunks: Iterable[pa.ChunkedArray], most: int) -> IdTable | None:
        """The set of these ids, without NULLs; None if there are more than `most`."""
        found = cls(most)
        return found if all(found._add(pairs) for pairs in hashed_twice(chunks)) else None

    def _add(self, pairs: Hashes) -> bool:
        self._room -= len(pairs)
        if self._room < 0:
            return False
        if _compiled().insert(self._slots, pairs):
            self.are_distinct = False
        return True

    def missing(self, pairs: Hashes) -> Hashes:
        """The pairs that are not in the set; the array of the given ones is used for them."""
        return pairs[: _compiled().gather_missing(self._slots, pairs)]

    def has_none(self, chunks: Iterable[pa.ChunkedArray], folder: Path) -> bool:
        return all(len(self.missing(pairs)) == len(pairs) for pairs in hashed_twice(chunks))


class FoundEnds:
    """Ends of edges that were looked up among the stored nodes of one type, from `first_row` on."""

    def __init__(self, columns: Sequence[str], stored: IdTable, epoch: str, first_row: int) -> None:
        self.stored = stored
        self.epoch = epoch
        """The content epoch of the stored nodes."""
        self.first_row = first_row
        self._columns = columns
        self._missing: list[Hashes] | None = []
        self._missing_count = 0

    def add(self, rows: pa.Table) -> None:
        """Look up the ends of the next rows."""
        if self._missing is None:
            return
        for pairs in hashed_twice(rows.column(name) for name in self._columns):
            missing = self.stored.missing(pairs)
            if len(missing):
                self._missing.append(missing.copy())
                self._missing_count += len(missing)
        if self._missing_count > _MOST_MISSING:
            self._missing = None

    def are_among(self, known: Sequence[IdTable]) -> bool:
        """Every end that was looked up is stored, or in one of these sets."""
        if self._missing is None:
            return False
        return all(_all_in_tables(pairs.copy(), known) for pairs in self._missing)

    def rows_before(self, chunks: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Of all rows, in their order, those that were not looked up."""
        left = self.first_row
        for chunk in chunks:
            if left <= 0:
                return
            yield chunk.slice(0, left)
            left -= chunk.num_rows


def all_among(chunks: Iterable[pa.ChunkedArray], known: Sequence[IdSet], folder: Path) -> bool:
    """Every text of `chunks` is in one of the sets. Many hashes are kept in files in `folder`."""
    tables = [ids for ids in known if isinstance(ids, IdTable)]
    sets = [ids for ids in known if isinstance(ids, IdHashes)]
    if not sets:
        return all(_all_in_tables(pairs, tables) for pairs in hashed_twice(chunks))
    if tables:
        return _all_in_ranges(_missing_lanes(chunks, tables, folder), sets)
    if not all(ids.is_held for ids in sets):
        return _all_in_ranges(_lanes_of(chunks, folder, _LANES), sets)
    lanes = [_sorted_lane(sets, lane) for lane in range(len(_LANES))]
    for texts in _passes(chunks):
        for key, hashed in zip(_LANES, lanes, strict=True):
            hashes = _of_texts(texts, key)
            if hashes is None:
                return False
            hashes.sort()  # sorted hashes are found faster
            if not _all_found(hashed, hashes):
                return False
    return True


def _missing(pairs: Hashes, known: Sequence[IdTable]) -> Hashes:
    for ids in known:
        pairs = ids.missing(pairs)
    return pairs


def _all_in_tables(pairs: Hashes, known: Sequence[IdTable]) -> bool:
    return len(_missing(pairs, known)) == 0


def _missing_lanes(
    chunks: Iterable[pa.ChunkedArray], known: Sequence[IdTable], folder: Path
) -> tuple[HashRuns, ...]:
    """The hashes by each key of the texts that are in none of the sets."""
    lanes = tuple(HashRuns(folder) for _ in _LANES)
    for pairs in hashed_twice(chunks):
        missing = _missing(pairs, known)
        for number, lane in enumerate(lanes):
            lane.add(missing[:, number].copy())
    return lanes


@functools.cache
def _compiled() -> Any:
    """The compiled loops, which are loaded by the first large load."""
    return importlib.import_module("omnigraph.load.compiled_proofs")


def hashed_twice(chunks: Iterable[pa.ChunkedArray]) -> Iterator[Hashes]:
    """Both hashes of every text that is not NULL, as rows of an array, some at a time."""
    hash_texts = _compiled().hash_texts
    for column in chunks:
        for chunk in column.chunks:
            given = chunk.drop_null() if chunk.null_count else chunk
            for start in range(0, len(given), _TEXTS_PER_LOOP):
                part = given.slice(start, _TEXTS_PER_LOOP)
                offsets, texts = _text_buffers(part)
                count = max(len(texts) - _WORD + 1, 0)
                words = np.ndarray((count,), np.uint64, texts, strides=(1,))
                pairs = np.empty((len(part), 2), np.uint64)
                hash_texts(texts, words, offsets, _LANE_KEYS, pairs)
                yield pairs


def _all_in_ranges(given: Sequence[HashRuns] | None, known: Sequence[IdHashes]) -> bool:
    if given is None:
        return False
    for lane, runs in enumerate(given):
        ranges = zip(*(ids.lanes[lane].ranges() for ids in known), strict=True)
        for number, sets in enumerate(ranges):
            if not all(_all_found(sets, hashes) for hashes in runs.pieces(number)):
                return False
    return True


def _lanes_of(
    chunks: Iterable[pa.ChunkedArray], folder: Path, keys: Sequence[_HashKey]
) -> tuple[HashRuns, ...] | None:
    """The hashes of all texts by each key; None if a text is too long."""
    lanes = tuple(HashRuns(folder) for _ in keys)
    for texts in _passes(chunks):
        for lane, key in zip(lanes, keys, strict=True):
            hashes = _of_texts(texts, key)
            if hashes is None:
                return None
            lane.add(hashes)
    return lanes


def _sorted_lane(sets: Sequence[IdHashes], lane: int) -> list[Hashes]:
    return [np.concatenate([*ids.lanes[lane].ranges(), _NO_HASHES]) for ids in sets]


def _all_found(sets: Sequence[Hashes], hashes: Hashes) -> bool:
    """Every hash is in one of the sorted sets."""
    for known in sets:
        hashes = hashes[~_found(known, hashes)]
    return len(hashes) == 0


def _found(known: Hashes, hashes: Hashes) -> npt.NDArray[np.bool_]:
    """Which of these hashes are in the sorted set."""
    if len(known) == 0:
        return np.zeros(len(hashes), bool)
    at = np.searchsorted(known, hashes)
    return np.asarray(known[np.minimum(at, len(known) - 1)] == hashes)


def _passes(chunks: Iterable[pa.ChunkedArray]) -> Iterator[pa.Array]:
    """The texts that are not NULL, about `_ROWS_PER_PASS` at a time."""
    waiting: list[pa.Array] = []
    for column in chunks:
        for chunk in column.chunks:
            for start in range(0, len(chunk), _ROWS_PER_PASS):
                waiting.append(chunk.slice(start, _ROWS_PER_PASS).drop_null())
                if sum(map(len, waiting)) >= _ROWS_PER_PASS:
                    yield pa.concat_arrays(waiting)
                    waiting = []
    if waiting:
        yield pa.concat_arrays(waiting)


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
    found = np.full(len(chunk), _FIXED.spread)
    found[given] = hashes
    return found


def _of_chunk(chunk: pa.Array) -> Hashes | None:
    kind = chunk.type
    if pa.types.is_string(kind):
        return _of_texts(chunk, _FIXED)
    if pa.types.is_integer(kind):
        words = _as_words(chunk.cast(pa.int64(), safe=False))
        return _mixed(np.full(len(chunk), _FIXED.spread), words)
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


def _of_texts(chunk: pa.Array, key: _HashKey) -> Hashes | None:
    """The hash of every text; None if a text is too long."""
    found = np.empty(len(chunk), np.uint64)
    for start in range(0, len(chunk), _TEXTS_PER_HASHING):
        hashes = _of_few_texts(chunk.slice(start, _TEXTS_PER_HASHING), key)
        if hashes is None:
            return None
        found[start : start + len(hashes)] = hashes
    return found


def _of_few_texts(chunk: pa.Array, key: _HashKey) -> Hashes | None:
    """`_of_texts` for at least one text; each pass hashes eight bytes of every text."""
    offsets, given = _text_buffers(chunk)
    lengths = np.diff(offsets).astype(np.int64)
    longest = int(lengths.max())
    if longest > _LONGEST_TEXT:
        return None
    texts = np.zeros(int(offsets[-1] - offsets[0]) + _LONGEST_TEXT + _WORD, np.uint8)
    texts[: int(offsets[-1] - offsets[0])] = given[offsets[0] : offsets[-1]]
    words = np.ndarray((len(texts) - _WORD + 1,), np.uint64, texts, strides=(1,))
    starts = (offsets[:-1] - offsets[0]).astype(np.int64)
    hashes = lengths.astype(np.uint64) * key.spread + key.mix
    for start in range(0, longest, _WORD):
        # Only texts that go on: the hash of a text must not depend on the texts beside it.
        left = lengths - start
        if int(left.min()) > 0:
            part = words[starts + start] & _FIRST_BYTES[np.minimum(left, _WORD)]
            hashes = _mixed(hashes, part, key)
        else:
            rows = np.flatnonzero(left > 0)
            part = words[starts[rows] + start] & _FIRST_BYTES[np.minimum(left[rows], _WORD)]
            hashes[rows] = _mixed(hashes[rows], part, key)
    return hashes


def _text_buffers(chunk: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Where each text begins and the last one ends, and the bytes of all texts; not copied."""
    _, offsets, texts = chunk.buffers()
    return (
        np.frombuffer(offsets, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1],
        np.frombuffer(b"" if texts is None else texts, np.uint8),
    )


def _mixed(hashes: Hashes, words: Hashes, key: _HashKey = _FIXED) -> Hashes:
    mixed: Hashes = (hashes ^ words) * key.mix
    mixed ^= mixed >> _HALF
    return mixed

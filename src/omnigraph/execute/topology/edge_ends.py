"""The two ends of every edge: found as positions of nodes, and counted.

Both columns of ends are read in one scan, and two threads find the ids of its batches. Counting
needs no order of the edges: they are parted by source, and each part is sorted by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.execute.topology.builds import build_step, in_this_build
from omnigraph.execute.topology.id_changes import Positions
from omnigraph.execute.topology.id_search import IntegerTable
from omnigraph.execute.topology.kernels import Counts, Ints

_T = TypeVar("_T")
_R = TypeVar("_R")

Words = npt.NDArray[Any]
IntegerTables = tuple[IntegerTable, IntegerTable]

# Arrow, Lance and numpy release the interpreter lock, so two threads take half the time of one.
_THREADS = 2
# For fewer edges starting a thread costs more than it saves.
_WORTH_THREADS = 50_000
# So many batches wait at most, so that a fast scan does not fill the memory.
_AHEAD = 32
# Edges that one step parts.
_AT_ONCE = 1 << 18
# A part of so many edges stays in the cache of a processor while it is sorted.
_PART_EDGES = 1 << 13
_MOST_PART_BITS = 8


def in_two_threads(work: Callable[[_T], _R], first: _T, second: _T, size: int) -> tuple[_R, _R]:
    """The work for two things that have so many edges."""
    if size < _WORTH_THREADS:
        return work(first), work(second)
    with ThreadPoolExecutor(_THREADS) as threads:
        one, two = threads.map(in_this_build(work), (first, second))
    return one, two


def find_ends(
    batches: Iterable[pa.RecordBatch], make_tables: Callable[[], IntegerTables | None], count: int
) -> tuple[Positions, Positions] | None:
    """Positions of the two columns of `count` rows; None when one of the ids is no number.

    The tables are made while the first batches are read.
    """
    ends = np.empty(count, np.int32), np.empty(count, np.int32)
    waiting: deque[Future[bool]] = deque()
    at = 0
    with ThreadPoolExecutor(_THREADS) as threads:
        tables = threads.submit(in_this_build(lambda _: make_tables()), None)

        def find(batch: pa.RecordBatch, at: int) -> bool:
            known = tables.result()
            if known is None:
                return False
            for table, column, found in zip(known, batch.columns, ends, strict=True):
                part = table.find(column)
                if part is None:
                    return False
                found[at : at + len(part)] = part
            return True

        for batch in batches:
            build_step()
            waiting.append(threads.submit(find, batch, at))
            at += batch.num_rows
            if len(waiting) > _AHEAD and not waiting.popleft().result():
                return None
        return ends if all(done.result() for done in waiting) else None


class EndCounts(NamedTuple):
    """The number of edges, and of different pairs of ends, of every source and of every target."""

    edges_out: Counts
    edges_into: Counts
    pairs_out: Counts
    pairs_into: Counts


def count_ends(sources: Ints, targets: Ints, sizes: tuple[int, int]) -> EndCounts:
    """In any order of the edges. Every end is a position."""
    edges, repeated = in_two_threads(
        lambda work: work(sources, targets, sizes), _counts, _repeated_pairs, len(sources)
    )
    if not len(repeated[0]):
        return EndCounts(*edges, *edges)
    again = _counts(*repeated, sizes)
    return EndCounts(*edges, edges[0] - again[0], edges[1] - again[1])


def _counts(sources: Ints, targets: Ints, sizes: tuple[int, int]) -> tuple[Words, Words]:
    return np.bincount(sources, minlength=sizes[0]), np.bincount(targets, minlength=sizes[1])


def _repeated_pairs(sources: Ints, targets: Ints, sizes: tuple[int, int]) -> tuple[Words, Words]:
    """The ends of every edge whose pair of ends an edge before it has.

    A word holds a pair without the bits of the source that all words of its part share.
    """
    source_bits, target_bits = (max(size - 1, 0).bit_length() for size in sizes)
    part_bits = min(source_bits, _MOST_PART_BITS, (len(sources) // _PART_EDGES).bit_length())
    rest_bits = source_bits - part_bits
    kind: Any = np.uint32 if rest_bits + target_bits <= 32 else np.uint64

    def parted(start: int) -> list[Words]:
        build_step()
        some = sources[start : start + _AT_ONCE]
        words: Words = (some & ((1 << rest_bits) - 1)).astype(kind)
        words <<= kind(target_bits)
        words |= targets[start : start + _AT_ONCE].view(np.uint32)
        if not part_bits:
            return [words]
        # numpy sorts numbers of 8 bits by counting them.
        parts = (some >> rest_bits).astype(np.uint8)
        ends = np.cumsum(np.bincount(parts, minlength=1 << part_bits))
        return np.split(words.take(np.argsort(parts, kind="stable")), ends[:-1])

    def repeated(part: int) -> tuple[Words, Words]:
        words = np.concatenate([pieces[part] for pieces in steps])
        words.sort()
        words = words[1:][words[1:] == words[:-1]]
        above = part << rest_bits
        return (
            (words >> kind(target_bits)).astype(np.int32) | np.int32(above),
            (words & kind((1 << target_bits) - 1)).astype(np.int32),
        )

    starts = range(0, len(sources), _AT_ONCE)
    if not starts:
        return sources, targets
    if len(sources) < _WORTH_THREADS:
        steps = list(map(parted, starts))
        found = list(map(repeated, range(1 << part_bits)))
    else:
        with ThreadPoolExecutor(_THREADS) as threads:
            steps = list(threads.map(in_this_build(parted), starts))
            found = list(threads.map(repeated, range(1 << part_bits)))
    return np.concatenate([s for s, _ in found]), np.concatenate([t for _, t in found])

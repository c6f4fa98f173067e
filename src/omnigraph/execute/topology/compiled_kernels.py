"""The loops of `kernels`, compiled by numba. Only `kernels` imports them, in a thread."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, njit, types

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True}
# Arrays that are mapped from a file cannot be written. A kernel for these takes others, too, and
# with a declared signature it is compiled when it is loaded, not when a query first calls it.
_INTS = types.Array(types.int32, 1, "C", readonly=True)
_OFFSETS = types.Array(types.int64, 1, "C", readonly=True)
# A list that is so many times longer is searched, others are passed through.
_MANY_TIMES = 16


@njit((_OFFSETS, _INTS, _INTS), **_OPTIONS)
def targets(offsets: Any, nodes: Any, sources: Any) -> Any:
    total = 0
    for i in range(len(sources)):
        total += offsets[sources[i] + 1] - offsets[sources[i]]
    met = np.empty(total, np.int32)
    n = 0
    for i in range(len(sources)):
        for entry in range(offsets[sources[i]], offsets[sources[i] + 1]):
            met[n] = nodes[entry]
            n += 1
    return met


@njit((_OFFSETS, _INTS, _INTS, _INTS), **_OPTIONS)
def follow(offsets: Any, nodes: Any, edges: Any, sources: Any) -> Any:
    total = 0
    for i in range(len(sources)):
        total += offsets[sources[i] + 1] - offsets[sources[i]]
    rows = np.empty(total, np.int64)
    met = np.empty(total, np.int32)
    taken = np.empty(total, np.int32)
    n = 0
    for i in range(len(sources)):
        for entry in range(offsets[sources[i]], offsets[sources[i] + 1]):
            rows[n] = i
            met[n] = nodes[entry]
            taken[n] = edges[entry]
            n += 1
    return rows, met, taken


@njit((_OFFSETS, _INTS, _INTS, _INTS, _INTS), **_OPTIONS)
def meet(offsets: Any, nodes: Any, edges: Any, sources: Any, wanted: Any) -> Any:
    rows = np.empty(len(sources), np.int64)
    taken = np.empty(len(sources), np.int32)
    n = 0
    for i in range(len(sources)):
        low = offsets[sources[i]]
        end = offsets[sources[i] + 1]
        high = end
        while low < high:
            middle = (low + high) // 2
            if nodes[middle] < wanted[i]:
                low = middle + 1
            else:
                high = middle
        while low < end and nodes[low] == wanted[i]:
            if n == len(rows):
                rows = np.concatenate((rows, np.empty(len(rows) + 16, np.int64)))
                taken = np.concatenate((taken, np.empty(len(taken) + 16, np.int32)))
            rows[n] = i
            taken[n] = edges[low]
            n += 1
            low += 1
    return rows[:n], taken[:n]


@njit((_INTS, int64, int64, _INTS, int64, int64), **_OPTIONS)
def _found_in(few: Any, few_at: int, few_end: int, many: Any, at: int, end: int) -> int:
    """How many of a few ascending numbers are among many: each is searched after the one before."""
    n = 0
    for i in range(few_at, few_end):
        high = end
        while at < high:
            middle = (at + high) // 2
            if many[middle] < few[i]:
                at = middle + 1
            else:
                high = middle
        if at < end and many[at] == few[i]:
            n += 1
    return n


@njit((_OFFSETS, _INTS, _OFFSETS, _INTS, _INTS, _INTS), **_OPTIONS)
def count_common(
    offsets: Any, nodes: Any, other_offsets: Any, other_nodes: Any, keys: Any, others: Any
) -> Any:
    """For each pair of keys, the number of nodes that both have. Each node is there once."""
    counts = np.zeros(len(keys), np.int64)
    for i in range(len(keys)):
        a, a_end = offsets[keys[i]], offsets[keys[i] + 1]
        b, b_end = other_offsets[others[i]], other_offsets[others[i] + 1]
        if (a_end - a) * _MANY_TIMES < b_end - b:
            counts[i] = _found_in(nodes, a, a_end, other_nodes, b, b_end)
        elif (b_end - b) * _MANY_TIMES < a_end - a:
            counts[i] = _found_in(other_nodes, b, b_end, nodes, a, a_end)
        else:
            n = 0
            while a < a_end and b < b_end:
                x, y = nodes[a], other_nodes[b]
                n += x == y
                a += x <= y
                b += y <= x
            counts[i] = n
    return counts


@njit((_OFFSETS, _INTS, _INTS, int64, int64), **_OPTIONS)
def reach(offsets: Any, nodes: Any, sources: Any, minimum: int, maximum: int) -> Any:
    """(nodes met by each source, these nodes, whether the search ended at the depth limit).

    The nodes of each source ascend.
    """
    size = len(offsets) - 1
    stamp = np.zeros(size, np.int32)
    queue = np.empty(size + 1, np.int32)
    counts = np.zeros(len(sources), np.int64)
    out = np.empty(max(1024, len(sources)), np.int32)
    n = 0
    open_end = False
    for i in range(len(sources)):
        begin, end, start = 0, 1, n
        queue[0] = sources[i]
        depth = 0
        while begin < end and depth < maximum:
            depth += 1
            level_end = end
            for q in range(begin, level_end):
                node = queue[q]
                for entry in range(offsets[node], offsets[node + 1]):
                    other = nodes[entry]
                    if stamp[other] == i + 1:
                        continue
                    stamp[other] = i + 1
                    # The source is at distance 0, so only a self-loop leads back to it.
                    if other != sources[i]:
                        queue[end] = other
                        end += 1
                    elif depth > 1:
                        continue
                    if depth >= minimum:
                        if n == len(out):
                            out = np.concatenate((out, np.empty(len(out), np.int32)))
                        out[n] = other
                        n += 1
            begin = level_end
        if begin < end and depth == maximum:
            open_end = True
        out[start:n].sort()
        counts[i] = n - start
    return counts, out[:n], open_end

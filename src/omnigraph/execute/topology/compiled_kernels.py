"""The loops of `kernels`, compiled by numba. Only `kernels` imports them, in a thread.

Importing this module compiles nothing. `compile_all` compiles the kernels, or loads them from the
cache of numba, which has them after a process has compiled them once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import int64, njit, types, uint64

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True}
# Arrays that are mapped from a file cannot be written. A kernel for these takes others, too.
_INTS = types.Array(types.int32, 1, "C", readonly=True)
_OFFSETS = types.Array(types.int64, 1, "C", readonly=True)
# A list that is so many times longer is searched, others are passed through.
_MANY_TIMES = 16
_LOW_HALF = np.uint64(0xFFFFFFFF)
_UPPER = np.uint64(32)

_signatures: dict[Any, tuple[Any, ...]] = {}


def _kernel(*signature: Any) -> Callable[[Any], Any]:
    def declared(function: Any) -> Any:
        made = njit(**_OPTIONS)(function)
        _signatures[made] = signature
        return made

    return declared


def are_kept() -> bool:
    """Whether the cache of numba seems to have every kernel of this file."""
    source = Path(__file__)
    for kernel in _signatures:
        kept = Path(kernel.stats.cache_path).glob(f"{source.stem}.{kernel.__name__}-*.nbc")
        if not any(file.stat().st_mtime >= source.stat().st_mtime for file in kept):
            return False
    return True


def compile_all() -> None:
    """Compile or load the kernels now, so that no query does it."""
    for kernel, signature in _signatures.items():
        kernel.compile(signature)


def compile_in_background() -> None:
    """`compile_all` in a process of its own, which leaves the processor to others."""
    if hasattr(os, "nice"):
        os.nice(10)
    compile_all()


@_kernel(_OFFSETS, _INTS, _INTS)
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


@_kernel(_OFFSETS, _INTS, _INTS, _INTS)
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


@_kernel(_OFFSETS, _INTS, _INTS, _INTS, _INTS)
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


@_kernel(_INTS, int64, int64, _INTS, int64, int64)
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


@_kernel(_OFFSETS, _INTS, _OFFSETS, _INTS, _INTS, _INTS)
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


@_kernel(_OFFSETS, _INTS, _INTS, int64, int64)
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


@_kernel(types.Array(types.uint64, 1, "C"))
def _halves(words: Any) -> Any:
    upper = np.empty(len(words), np.int32)
    lower = np.empty(len(words), np.int32)
    for i in range(len(words)):
        upper[i] = words[i] >> _UPPER
        lower[i] = words[i] & _LOW_HALF
    return upper, lower


@_kernel(_INTS, _INTS, _INTS, int64, int64)
def group(keys: Any, nodes: Any, edges: Any, key_count: int, node_count: int) -> Any:
    """(offsets, nodes, edges) of entries sorted by key, then by node. Ties keep their order.

    Counting sorts by node, then by key. Each of them moves one word for an entry.
    """
    size = len(keys)
    ends = np.zeros(node_count + 1, np.int64)
    for i in range(size):
        ends[nodes[i] + 1] += 1
    for node in range(node_count):
        ends[node + 1] += ends[node]
    by_node = np.empty(size, np.uint64)
    for i in range(size):
        by_node[ends[nodes[i]]] = uint64(keys[i]) << _UPPER | uint64(edges[i])
        ends[nodes[i]] += 1
    # The end of the entries of each node is now where the next node began.
    offsets = np.zeros(key_count + 1, np.int64)
    for i in range(size):
        offsets[keys[i] + 1] += 1
    for key in range(key_count):
        offsets[key + 1] += offsets[key]
    places = offsets[:-1].copy()
    by_key = np.empty(size, np.uint64)
    entry = 0
    for node in range(node_count):
        while entry < ends[node]:
            key = by_node[entry] >> _UPPER
            by_key[places[key]] = uint64(node) << _UPPER | (by_node[entry] & _LOW_HALF)
            places[key] += 1
            entry += 1
    return offsets, *_halves(by_key)


@_kernel(_OFFSETS, _INTS, _INTS, int64)
def turn(offsets: Any, nodes: Any, edges: Any, node_count: int) -> Any:
    """The entries of one direction as (offsets, nodes, edges) of the other one."""
    turned = np.zeros(node_count + 1, np.int64)
    for entry in range(len(nodes)):
        turned[nodes[entry] + 1] += 1
    for node in range(node_count):
        turned[node + 1] += turned[node]
    places = turned[:-1].copy()
    words = np.empty(len(nodes), np.uint64)
    for key in range(len(offsets) - 1):
        for entry in range(offsets[key], offsets[key + 1]):
            node = nodes[entry]
            words[places[node]] = uint64(key) << _UPPER | uint64(edges[entry])
            places[node] += 1
    return turned, *_halves(words)

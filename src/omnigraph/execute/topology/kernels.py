"""The loops of traversal over integers: in numpy, and compiled by numba for large work.

Loading numba takes half a second. A thread loads it when the first large work comes, so short
processes and small graphs do not wait for it. Until it is loaded, the work is done in numpy.

The first process after an installation has to compile the loops, which takes five seconds. Another
process of low priority does this, because a compiler in this one would hold the interpreter lock
while queries run.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

logger = logging.getLogger(__name__)

Ints = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]
RowNumbers = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]

# Of so many sources the work is worth loading the compiled kernels.
_LARGE = 20_000
# A build of so many entries is worth it. Loading takes half a second of the interpreter lock, which
# the build needs, too, and a compiled kernel saves 0.05 us for an entry.
_LARGE_BUILD = 5_000_000
# A counting sort has a counter for each node, which does not pay for fewer entries.
_PLACES_PER_ENTRY = 16
# Of so few sources numpy slices are cheaper than any kernel.
_FEW = 32
_COMPILED = "omnigraph.execute.topology.compiled_kernels"
_COMPILE = f"from {_COMPILED} import compile_in_background as c; c()"
_COMPILE_SECONDS = 300

_loading: threading.Thread | None = None
_compiled: Any = None
_lock = threading.Lock()


def warm_up() -> bool:
    """Load the compiled kernels and wait for them; False when numba is not installed."""
    _start_loading()
    if _loading is not None:
        _loading.join()
    return _compiled is not None


def compress(keys: Ints, count: int) -> tuple[Offsets, RowNumbers]:
    """(row offsets, order): entries grouped by key, keeping their order within a key."""
    order = np.argsort(keys, kind="stable")
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(keys, minlength=count), out=offsets[1:])
    return offsets, order


def follow_all(offsets: Offsets, nodes: Ints, edges: Ints) -> tuple[RowNumbers, Ints, Ints]:
    """`follow` from every node, which takes the entries unchanged."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), nodes, edges


def follow(
    offsets: Offsets, nodes: Ints, edges: Ints, sources: Ints
) -> tuple[RowNumbers, Ints, Ints]:
    """Every entry of every source: (row in `sources`, node, edge), in row order."""
    if len(sources) == 1:
        start, end = offsets[sources[0]], offsets[sources[0] + 1]
        return np.zeros(end - start, np.int64), nodes[start:end], edges[start:end]
    if len(sources) <= _FEW:
        return _follow_few(offsets, nodes, edges, sources)
    compiled = _for_work(sources)
    if compiled is not None:
        result: tuple[RowNumbers, Ints, Ints] = compiled.follow(offsets, nodes, edges, sources)
        return result
    rows, entries = _entries(offsets, sources)
    return rows, nodes[entries], edges[entries]


def _follow_few(
    offsets: Offsets, nodes: Ints, edges: Ints, sources: Ints
) -> tuple[RowNumbers, Ints, Ints]:
    starts, ends = offsets[sources], offsets[sources + 1]
    return (
        np.repeat(np.arange(len(sources)), ends - starts),
        _slices(nodes, starts, ends),
        _slices(edges, starts, ends),
    )


def targets(offsets: Offsets, nodes: Ints, sources: Ints) -> Ints:
    """The nodes of `follow` alone."""
    if len(sources) <= _FEW:
        return _slices(nodes, offsets[sources], offsets[sources + 1])
    compiled = _for_work(sources)
    if compiled is not None:
        result: Ints = compiled.targets(offsets, nodes, sources)
        return result
    return nodes[_entries(offsets, sources)[1]]


def _slices(values: Ints, starts: Offsets, ends: Offsets) -> Ints:
    pairs = zip(starts.tolist(), ends.tolist(), strict=True)
    parts = [values[start:end] for start, end in pairs]
    return np.concatenate(parts) if len(parts) > 1 else parts[0] if parts else values[:0]


def follow_single(
    entry_of: Ints, nodes: Ints, edges: Ints, sources: Ints
) -> tuple[RowNumbers, Ints, Ints]:
    """`follow` where every source has at most one entry."""
    entries = entry_of[sources]
    rows = np.flatnonzero(entries >= 0)
    taken = entries if len(rows) == len(entries) else entries[rows]
    return rows, nodes[taken], edges[taken]


def meet(
    offsets: Offsets, nodes: Ints, edges: Ints, sources: Ints, wanted: Ints
) -> tuple[RowNumbers, Ints]:
    """Entries of each source that lead to the wanted node of its row: (row, edge)."""
    compiled = _for_work(sources)
    if compiled is not None and wanted.dtype == np.int32:
        result: tuple[RowNumbers, Ints] = compiled.meet(offsets, nodes, edges, sources, wanted)
        return result
    rows, entries = _entries(offsets, sources)
    hit = nodes[entries] == wanted[rows]
    return rows[hit], edges[entries[hit]]


def count_common(
    offsets: Offsets,
    nodes: Ints,
    other_offsets: Offsets,
    other_nodes: Ints,
    keys: Ints,
    others: Ints,
) -> npt.NDArray[np.int64] | None:
    """For each pair of keys, the number of nodes that both have; None while not compiled."""
    compiled = _for_work(keys)
    if compiled is None or others.dtype != np.int32:
        return None
    counts: npt.NDArray[np.int64] = compiled.count_common(
        offsets, nodes, other_offsets, other_nodes, keys, others
    )
    return counts


def expect_build(entries: int) -> None:
    """So many entries will be found and sorted soon."""
    if _compiled is None and entries >= _LARGE_BUILD:
        _start_loading()


def compiled_group(
    keys: Ints, nodes: Ints, edges: Ints, key_count: int
) -> tuple[Offsets, Ints, Ints] | None:
    """Entries by key, then by node, else in their order; None while not compiled."""
    if _compiled is None or len(nodes) == 0 or not _are_int32(keys, nodes, edges):
        return None
    node_count = int(nodes.max()) + 1
    if node_count > len(nodes) * _PLACES_PER_ENTRY:
        return None
    found: tuple[Offsets, Ints, Ints] = _compiled.group(keys, nodes, edges, key_count, node_count)
    return found


def compiled_turn(
    offsets: Offsets, nodes: Ints, edges: Ints, node_count: int
) -> tuple[Offsets, Ints, Ints] | None:
    """One direction from the other one; None while not compiled."""
    if _compiled is None or not _are_int32(nodes, edges):
        return None
    found: tuple[Offsets, Ints, Ints] = _compiled.turn(offsets, nodes, edges, node_count)
    return found


def _are_int32(*arrays: npt.NDArray[Any]) -> bool:
    return all(array.dtype == np.int32 and array.flags.c_contiguous for array in arrays)


def compiled_reach() -> Any | None:
    """The compiled breadth-first search; None before it is loaded."""
    return _compiled.reach if _compiled is not None else None


def degrees(offsets: Offsets, sources: Ints) -> npt.NDArray[np.int64]:
    return offsets[sources + 1] - offsets[sources]


def unique_sorted(values: Ints, size: int) -> Ints:
    """Distinct values ascending: many by a bitmap, few by sorting."""
    if len(values) * 4 < size:
        # `np.unique` hashes the values, which takes ten times as long as to sort them.
        ordered = np.sort(values)
        first = np.empty(len(ordered), bool)
        first[:1] = True
        np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
        return ordered[first]
    seen = np.zeros(size, bool)
    seen[values] = True
    return np.flatnonzero(seen).astype(np.int32)


def _entries(offsets: Offsets, sources: Ints) -> tuple[RowNumbers, RowNumbers]:
    starts = offsets[sources]
    counts = offsets[sources + 1] - starts
    total = int(counts.sum())
    rows = np.repeat(np.arange(len(sources)), counts)
    if total == 0:
        return rows, np.empty(0, np.int64)
    before = np.cumsum(counts) - counts
    return rows, np.arange(total) + np.repeat(starts - before, counts)


def _for_work(sources: Ints) -> Any | None:
    """The compiled kernels, if they are loaded; the first large work begins to load them."""
    if _compiled is None and len(sources) >= _LARGE:
        _start_loading()
    return _compiled if sources.dtype == np.int32 else None


def _start_loading() -> None:
    global _loading
    with _lock:
        if _loading is None and importlib.util.find_spec("numba") is not None:
            _loading = threading.Thread(target=_load, daemon=True)
            _loading.start()


def _load() -> None:
    global _compiled
    compiled = importlib.import_module(_COMPILED)
    if not compiled.are_kept():
        _compile_beside()
    compiled.compile_all()
    _compiled = compiled


def _compile_beside() -> None:
    """Fill the cache of numba in another process. If that fails, this thread compiles."""
    if not Path(sys.executable or "").name.startswith("python"):
        return  # the interpreter is part of another program
    try:
        subprocess.run(
            [sys.executable, "-c", _COMPILE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=_COMPILE_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        logger.info("the kernels are compiled in this process: %s", error)

"""One direction of an edge type: the neighbours of each node, as offsets into sorted entries.

An entry is a neighbour and the edge that leads to it. `StoredNeighbours` has all arrays. A
`NeighbourLayer` answers for a few nodes from other neighbours: `PatchedNeighbours` from the arrays
of an older state and a few changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from omnigraph.execute.topology import kernels
from omnigraph.execute.topology.id_changes import MISSING, PositionPatch
from omnigraph.execute.topology.kernels import Ints, Offsets, RowNumbers
from omnigraph.execute.topology.memory_cache import Held, counted

Counts = npt.NDArray[np.int64]


class Neighbours(Protocol):
    """Entries grouped by source position, ascending by neighbour, then by edge."""

    @property
    def offsets(self) -> Offsets: ...

    @property
    def nodes(self) -> Ints: ...

    @property
    def edges(self) -> Ints: ...

    @property
    def largest(self) -> int:
        """An upper bound of the number of neighbours of a node."""

    def follow(self, sources: Ints) -> tuple[RowNumbers, Ints, Ints]:
        """Every entry of every source: (row in `sources`, node, edge), in row order."""

    def targets(self, sources: Ints) -> Ints:
        """The nodes of `follow` alone."""

    def meet(self, sources: Ints, wanted: Ints) -> tuple[RowNumbers, Ints]:
        """Entries of each source that lead to the wanted node of its row: (row, edge)."""

    def degrees(self, sources: Ints) -> Counts: ...

    @property
    def pairs(self) -> Neighbours:
        """Each pair of ends once, by its first edge."""


# The bytes of the objects of one direction, and of one layer, without entries.
_EMPTY_BYTES = 500
_LAYER_BYTES = 1_500
# `entry_of` reads every offset once. For fewer sources that does not pay.
_FEW = 1000
# For more sources, or after more calls, one copy of the arrays is cheaper than using the layer.
_FEW_SOURCES = 2000
_CALLS_BEFORE_COPY = 200
# So many pairs are compared at once, because their entries then stay in the cache of a processor.
_PAIRS_AT_ONCE = 4096
_WORD = 64
# Entries of so many nodes are handled at once while the interpreter lock is held.
_NODES_AT_ONCE = 1 << 16


@dataclass(eq=False)
class StoredNeighbours(Held):
    """All arrays of one direction."""

    offsets: Offsets
    nodes: Ints
    edges: Ints

    @cached_property
    def largest(self) -> int:
        return int(np.diff(self.offsets).max()) if len(self.offsets) > 1 else 0

    @counted
    def entry_of(self) -> Ints | None:
        """The entry of each node, or MISSING; None when a node has several neighbours."""
        if len(self.nodes) == 0 or len(self.nodes) >= len(self.offsets) or self.largest > 1:
            return None
        entries = self.offsets[:-1].astype(np.int32)
        entries[np.diff(self.offsets) == 0] = MISSING
        return entries

    def follow(self, sources: Ints) -> tuple[RowNumbers, Ints, Ints]:
        if len(sources) > _FEW and self.entry_of is not None:
            return kernels.follow_single(self.entry_of, self.nodes, self.edges, sources)
        return kernels.follow(self.offsets, self.nodes, self.edges, sources)

    def targets(self, sources: Ints) -> Ints:
        return kernels.targets(self.offsets, self.nodes, sources)

    def meet(self, sources: Ints, wanted: Ints) -> tuple[RowNumbers, Ints]:
        if len(sources) > _FEW and self.entry_of is not None:
            rows, nodes, edges = self.follow(sources)
            hit = nodes == wanted[rows]
            return rows[hit], edges[hit]
        return kernels.meet(self.offsets, self.nodes, self.edges, sources, wanted)

    def degrees(self, sources: Ints) -> Counts:
        return kernels.degrees(self.offsets, sources)

    @counted
    def pairs(self) -> StoredNeighbours:
        """Parallel edges are next to each other, because entries are sorted by node."""
        repeated = np.zeros(len(self.nodes), bool)
        if len(self.nodes):
            np.equal(self.nodes[1:], self.nodes[:-1], out=repeated[1:])
            starts = self.offsets[:-1]
            repeated[starts[starts < len(self.nodes)]] = False
        if not repeated.any():
            return self
        first = ~repeated
        before = np.zeros(len(self.nodes) + 1, np.int64)
        np.cumsum(first, out=before[1:])
        return StoredNeighbours(before[self.offsets], self.nodes[first], self.edges[first])

    @property
    def own_bytes(self) -> int:
        found = _EMPTY_BYTES + self.offsets.nbytes + self.nodes.nbytes + self.edges.nbytes
        entries: Ints | None = self.__dict__.get("entry_of")
        return int(found if entries is None else found + entries.nbytes)

    @property
    def parts(self) -> Iterable[Held]:
        pairs: StoredNeighbours | None = self.__dict__.get("pairs")
        return () if pairs is None or pairs is self else (pairs,)


def count_common(near: Neighbours, far: Neighbours, keys: Ints, others: Ints) -> Counts:
    """For each pair of a key and another one, the number of nodes that are neighbours of both."""
    if len(keys) > _FEW_SOURCES:
        counts = kernels.count_common(
            near.offsets, near.nodes, far.offsets, far.nodes, keys, others
        )
        if counts is not None:
            return counts
    counts = np.zeros(len(keys), np.int64)
    for start in range(0, len(keys), _PAIRS_AT_ONCE):
        part = slice(start, start + _PAIRS_AT_ONCE)
        rows, nodes, _ = near.follow(keys[part])
        hits, _ = far.meet(others[part][rows], nodes)
        counts[part] = np.bincount(rows[hits], minlength=len(counts[part]))
    return counts


def group(keys: Ints, nodes: Ints, edges: Ints, count: int) -> StoredNeighbours:
    """Sort entries by (key, node, edge). `edges` must ascend."""
    compiled = kernels.compiled_group(keys, nodes, edges, count)
    if compiled is not None:
        return StoredNeighbours(*compiled)
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(keys, minlength=count), out=offsets[1:])
    if len(keys) == 0:
        return StoredNeighbours(offsets, nodes, edges)
    key_bits, node_bits, edge_bits = (int(a.max()).bit_length() for a in (keys, nodes, edges))
    if key_bits + node_bits + edge_bits <= _WORD:
        return StoredNeighbours(offsets, *_sorted_entries(keys, nodes, edges, node_bits, edge_bits))
    by_node = np.argsort(nodes, kind="stable")
    order = by_node[np.argsort(keys[by_node], kind="stable")]
    return StoredNeighbours(offsets, nodes[order], edges[order])


def turned(near: Neighbours, count: int) -> StoredNeighbours:
    """The other direction, which has `count` nodes."""
    compiled = kernels.compiled_turn(near.offsets, near.nodes, near.edges, count)
    if compiled is not None:
        return StoredNeighbours(*compiled)
    # Entries in the order of edges, as `group` takes them.
    size = int(near.edges.max()) + 1 if len(near.edges) else 0
    keys, nodes = np.full(size, MISSING, np.int32), np.empty(size, np.int32)
    keys[near.edges], nodes[near.edges] = near.nodes, _keys_of(near)
    edges = np.flatnonzero(keys != MISSING).astype(np.int32)
    if len(edges) != size:
        keys, nodes = keys[edges], nodes[edges]
    return group(keys, nodes, edges, count)


def _keys_of(near: Neighbours) -> Ints:
    """The node of each entry.

    Some nodes at a time, because `np.repeat` holds the interpreter lock.
    """
    offsets, count = near.offsets, len(near.offsets) - 1
    keys = np.empty(len(near.nodes), np.int32)
    for first in range(0, count, _NODES_AT_ONCE):
        last = min(first + _NODES_AT_ONCE, count)
        degrees = np.diff(offsets[first : last + 1])
        keys[offsets[first] : offsets[last]] = np.repeat(
            np.arange(first, last, dtype=np.int32), degrees
        )
    return keys


def _sorted_entries(
    keys: Ints, nodes: Ints, edges: Ints, node_bits: int, edge_bits: int
) -> tuple[Ints, Ints]:
    """Pack key, node and edge into one word, because sorting integers is ten times faster."""
    words = keys.astype(np.uint64)
    words <<= np.uint64(node_bits)
    words |= nodes.view(np.uint32)
    words <<= np.uint64(edge_bits)
    words |= edges.view(np.uint32)
    words.sort()
    taken = (words & np.uint64((1 << edge_bits) - 1)).astype(np.int32)
    words >>= np.uint64(edge_bits)
    words &= np.uint64((1 << node_bits) - 1)
    return words.astype(np.int32), taken


@dataclass(frozen=True)
class EntryChanges:
    """What changed in the entries of one direction; new entries are sorted by (key, node, edge)."""

    keys: PositionPatch
    nodes: PositionPatch
    edges: PositionPatch
    removed_edges: npt.NDArray[np.int64]
    """Old positions of deleted and updated edges, ascending."""
    new_keys: Ints
    new_nodes: Ints
    new_edges: Ints


class NeighbourLayer(Held, ABC):
    """A layer over other neighbours; for many sources, or many calls, the arrays are copied."""

    def __init__(self) -> None:
        self._calls = 0

    @counted
    def offsets(self) -> Offsets:
        return self.whole.offsets

    @property
    def nodes(self) -> Ints:
        return self.whole.nodes

    @property
    def edges(self) -> Ints:
        return self.whole.edges

    @property
    def pairs(self) -> Neighbours:
        return self.whole.pairs if self.is_whole else LayerPairs(self)

    @property
    def pair_counts(self) -> Counts:
        """The number of neighbours of every node."""
        return np.diff(self.whole.pairs.offsets)

    @property
    @abstractmethod
    def largest(self) -> int: ...

    @abstractmethod
    def follow_few(self, sources: Ints) -> tuple[RowNumbers, Ints, Ints]:
        """`follow`, without a copy of the arrays."""

    @abstractmethod
    def make_whole(self) -> StoredNeighbours:
        """The arrays that a new build would give."""

    @counted
    def whole(self) -> StoredNeighbours:
        return self.make_whole()

    def follow(self, sources: Ints) -> tuple[RowNumbers, Ints, Ints]:
        if self._prefers_whole(len(sources)):
            return self.whole.follow(sources)
        return self.follow_few(sources)

    def targets(self, sources: Ints) -> Ints:
        return self.follow(sources)[1]

    def meet(self, sources: Ints, wanted: Ints) -> tuple[RowNumbers, Ints]:
        if self._prefers_whole(len(sources)):
            return self.whole.meet(sources, wanted)
        rows, nodes, edges = self.follow(sources)
        hit = nodes == wanted[rows]
        return rows[hit], edges[hit]

    def degrees(self, sources: Ints) -> Counts:
        if self._prefers_whole(len(sources)):
            return kernels.degrees(self.offsets, sources)
        return np.bincount(self.follow(sources)[0], minlength=len(sources))

    @property
    def is_whole(self) -> bool:
        return "whole" in self.__dict__

    def _prefers_whole(self, sources: int) -> bool:
        self._calls += 1
        return self.is_whole or sources > _FEW_SOURCES or self._calls > _CALLS_BEFORE_COPY


class PatchedNeighbours(NeighbourLayer):
    """A layer of changes over an older state."""

    def __init__(self, base: StoredNeighbours, changes: EntryChanges) -> None:
        super().__init__()
        self._base = base
        self._changes = changes

    @counted
    def offsets(self) -> Offsets:
        """Counting neighbours needs no copy of the entries."""
        counts = np.diff(self._old_starts)
        counts += np.bincount(self._changes.new_keys, minlength=len(counts))
        return _starts(counts)

    @counted
    def pair_counts(self) -> Counts:
        """Only nodes whose entries changed are looked at again."""
        counts = self._moved_counts(self._base.pairs.offsets)
        changed = self._changed_keys
        counts[changed] = LayerPairs(self).few_degrees(changed)
        return counts

    @property
    def largest(self) -> int:
        return self._base.largest + len(self._changes.new_keys)

    def follow_few(self, sources: Ints) -> tuple[RowNumbers, Ints, Ints]:
        changes = self._changes
        old = changes.keys.back(sources)
        known = np.flatnonzero(old != MISSING)
        rows, nodes, edges = self._base.follow(old[known])
        kept = ~np.isin(edges, changes.removed_edges)
        if len(changes.nodes.deleted):
            kept &= ~changes.nodes.is_deleted(nodes)
        rows = known[rows[kept]]
        nodes, edges = changes.nodes.forward(nodes[kept]), changes.edges.forward(edges[kept])
        new_rows, new_nodes, new_edges = self._new_entries(sources)
        if len(new_rows) == 0:
            return rows, nodes, edges
        rows = np.concatenate([rows, new_rows])
        nodes, edges = np.concatenate([nodes, new_nodes]), np.concatenate([edges, new_edges])
        order = np.lexsort((edges, nodes, rows))
        return rows[order], nodes[order], edges[order]

    def make_whole(self) -> StoredNeighbours:
        changes, base, gone = self._changes, self._base, self._gone
        nodes = np.delete(base.nodes, gone) if len(gone) else base.nodes
        edges = np.delete(base.edges, gone) if len(gone) else base.edges
        nodes, edges = changes.nodes.forward(nodes), changes.edges.forward(edges)
        if len(changes.new_keys):
            entries = zip(changes.new_keys, changes.new_nodes, changes.new_edges, strict=True)
            places = [_place(self._old_starts, nodes, edges, *entry) for entry in entries]
            nodes = _with_inserted(nodes, places, changes.new_nodes)
            edges = _with_inserted(edges, places, changes.new_edges)
        return StoredNeighbours(self.offsets, nodes, edges)

    @cached_property
    def _gone(self) -> npt.NDArray[np.int64]:
        return _removed_entries(self._base, self._changes)

    @property
    def _changed_keys(self) -> Ints:
        """Nodes that gained or lost entries."""
        changes = self._changes
        lost = np.searchsorted(self._base.offsets, self._gone, side="right") - 1
        lost = lost[~changes.keys.is_deleted(lost)]
        return np.union1d(changes.new_keys, changes.keys.forward(lost)).astype(np.int32)

    @cached_property
    def _old_starts(self) -> Offsets:
        """Offsets of the old entries that remain, by new key."""
        offsets = self._base.offsets
        if len(self._gone):
            offsets = offsets - np.searchsorted(self._gone, offsets, side="left")
        return _starts(self._moved_counts(offsets)) if self._changes.keys.moves else offsets

    def _moved_counts(self, offsets: Offsets) -> Counts:
        """The number of entries of each new key by the offsets of the old ones, 0 for new keys.

        In one pass, because the pages of a new array cost more than its numbers.
        """
        keys = self._changes.keys
        counts = np.empty(keys.new_count, np.int64)
        # A key that came is before the old key at the same place.
        cuts = [(place, 0) for place in keys.insert_ranks.tolist()]
        cuts += [(place, 1) for place in keys.deleted.tolist()]
        start = at = 0
        for place, skipped in (*sorted(cuts), (keys.count, 1)):
            end = at + place - start
            np.subtract(offsets[start + 1 : place + 1], offsets[start:place], out=counts[at:end])
            if not skipped:
                counts[end] = 0
            start, at = place + skipped, end + 1 - skipped
        return counts

    @property
    def own_bytes(self) -> int:
        found = _LAYER_BYTES + self._changes.new_keys.nbytes * 3
        names = ("offsets", "pair_counts", "_old_starts", "_gone")
        made = (self.__dict__.get(name) for name in names)
        return int(found + sum(array.nbytes for array in made if array is not None))

    @property
    def parts(self) -> Iterable[Held]:
        return (self._base, self.whole) if self.is_whole else (self._base,)

    def _new_entries(self, sources: Ints) -> tuple[RowNumbers, Ints, Ints]:
        changes = self._changes
        first = np.searchsorted(changes.new_keys, sources, side="left")
        counts = np.searchsorted(changes.new_keys, sources, side="right") - first
        rows = np.repeat(np.arange(len(sources)), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        at = first[rows] + within
        return rows, changes.new_nodes[at], changes.new_edges[at]


class LayerPairs:
    """A layer with each pair of ends once."""

    def __init__(self, every: NeighbourLayer) -> None:
        self._every = every

    @property
    def offsets(self) -> Offsets:
        return _starts(self._every.pair_counts)

    @property
    def nodes(self) -> Ints:
        return self._every.whole.pairs.nodes

    @property
    def edges(self) -> Ints:
        return self._every.whole.pairs.edges

    @property
    def largest(self) -> int:
        return self._every.largest

    @property
    def pairs(self) -> Neighbours:
        return self

    def follow(self, sources: Ints) -> tuple[RowNumbers, Ints, Ints]:
        rows, nodes, edges = self._every.follow(sources)
        first = np.ones(len(rows), bool)
        first[1:] = (np.diff(rows) != 0) | (np.diff(nodes) != 0)
        return rows[first], nodes[first], edges[first]

    def targets(self, sources: Ints) -> Ints:
        return self.follow(sources)[1]

    def meet(self, sources: Ints, wanted: Ints) -> tuple[RowNumbers, Ints]:
        rows, nodes, edges = self.follow(sources)
        hit = nodes == wanted[rows]
        return rows[hit], edges[hit]

    def degrees(self, sources: Ints) -> Counts:
        if len(sources) > _FEW_SOURCES:
            return self._every.pair_counts[sources]
        return self.few_degrees(sources)

    def few_degrees(self, sources: Ints) -> Counts:
        return np.bincount(self.follow(sources)[0], minlength=len(sources))


def _starts(counts: npt.NDArray[np.int64]) -> Offsets:
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def _removed_entries(base: StoredNeighbours, changes: EntryChanges) -> npt.NDArray[np.int64]:
    """Old entries whose edge or end was deleted or whose edge was updated, ascending."""
    gone = np.zeros(0, np.int64)
    if len(changes.removed_edges):
        gone = _entries_with(base.edges, changes.removed_edges, changes.edges.count)
    if len(changes.nodes.deleted):
        at = _entries_with(base.nodes, changes.nodes.deleted, changes.nodes.count)
        gone = np.union1d(gone, at)
    if len(changes.keys.deleted):
        starts, ends = (base.offsets[changes.keys.deleted + shift] for shift in (0, 1))
        ranges = [np.arange(a, b) for a, b in zip(starts, ends, strict=True)]
        gone = np.union1d(gone, np.concatenate(ranges))
    return gone


def _entries_with(values: Ints, wanted: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    marked = np.zeros(size, bool)
    marked[wanted] = True
    return np.flatnonzero(marked[values])


def _place(starts: Offsets, nodes: Ints, edges: Ints, key: int, node: int, edge: int) -> int:
    """The place of a new entry among the old ones."""
    start, end = starts[key], starts[key + 1]
    low = start + np.searchsorted(nodes[start:end], node, side="left")
    high = start + np.searchsorted(nodes[start:end], node, side="right")
    return int(low + np.searchsorted(edges[low:high], edge))


def _with_inserted(values: Ints, places: list[int], new: Ints) -> Ints:
    """Faster than `np.insert`, because whole stretches between the places are copied."""
    result = np.empty(len(values) + len(new), np.int32)
    start = 0
    for number, (place, value) in enumerate(zip(places, new.tolist(), strict=True)):
        result[start + number : place + number] = values[start:place]
        result[place + number] = value
        start = place
    result[start + len(new) :] = values[start:]
    return result

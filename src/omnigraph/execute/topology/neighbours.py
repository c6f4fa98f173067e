"""One direction of an edge type: who is next to whom, as offsets into sorted entries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from omnigraph.execute.topology import kernels
from omnigraph.execute.topology.id_changes import MISSING
from omnigraph.execute.topology.kernels import Ints, Offsets, Rows
from omnigraph.execute.topology.memory_cache import Held, counted


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
        """At least the most neighbours any node has."""

    def follow(self, sources: Ints) -> tuple[Rows, Ints, Ints]:
        """Every entry of every source: (row in `sources`, node, edge), in row order."""

    def meet(self, sources: Ints, wanted: Ints) -> tuple[Rows, Ints]:
        """Entries of each source that lead to the node wanted in its row: (row, edge)."""

    def degrees(self, sources: Ints) -> Rows: ...

    @property
    def pairs(self) -> Neighbours:
        """Each pair of ends once, by its first edge."""


@dataclass(eq=False)
class StoredNeighbours(Held):
    """The arrays themselves."""

    offsets: Offsets
    nodes: Ints
    edges: Ints

    @cached_property
    def largest(self) -> int:
        return int(np.diff(self.offsets).max()) if len(self.offsets) > 1 else 0

    @counted
    def entry_of(self) -> Ints | None:
        """Where nobody has more than one neighbour: the entry of each node, MISSING for none."""
        if len(self.nodes) == 0 or len(self.nodes) >= len(self.offsets) or self.largest > 1:
            return None
        entries = self.offsets[:-1].astype(np.int32)
        entries[np.diff(self.offsets) == 0] = MISSING
        return entries

    def follow(self, sources: Ints) -> tuple[Rows, Ints, Ints]:
        if len(sources) > _FEW and self.entry_of is not None:
            return kernels.follow_single(self.entry_of, self.nodes, self.edges, sources)
        return kernels.follow(self.offsets, self.nodes, self.edges, sources)

    def meet(self, sources: Ints, wanted: Ints) -> tuple[Rows, Ints]:
        if len(sources) > _FEW and self.entry_of is not None:
            rows, nodes, edges = self.follow(sources)
            hit = nodes == wanted[rows]
            return rows[hit], edges[hit]
        return kernels.meet(self.offsets, self.nodes, self.edges, sources, wanted)

    def degrees(self, sources: Ints) -> Rows:
        return kernels.degrees(self.offsets, sources)

    @counted
    def pairs(self) -> StoredNeighbours:
        """Parallel edges once: entries are sorted by node, so repeats stand side by side."""
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


# The objects of one direction without entries.
_EMPTY_BYTES = 500
# Finding out that nobody has two neighbours reads every offset; a few sources do without.
_FEW = 1000


def group(keys: Ints, nodes: Ints, edges: Ints, count: int) -> StoredNeighbours:
    """Entries sorted by (key, node, edge); `edges` ascends already."""
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


_WORD = 64


def _sorted_entries(
    keys: Ints, nodes: Ints, edges: Ints, node_bits: int, edge_bits: int
) -> tuple[Ints, Ints]:
    """All three in one word: sorting plain integers is ten times faster than sorting an index."""
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

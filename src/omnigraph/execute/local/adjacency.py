"""Who is connected to whom: both directions of one edge type between two node views."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from omnigraph.execute.local import kernels
from omnigraph.execute.local.entity_view import MISSING, TableView
from omnigraph.execute.local.kernels import Ints, Offsets


@dataclass(frozen=True)
class Neighbours:
    """Entries grouped by source position, ascending by neighbour, then by edge."""

    offsets: Offsets
    nodes: Ints
    edges: Ints

    @cached_property
    def largest(self) -> int:
        """The most neighbours any node has."""
        return int(np.diff(self.offsets).max()) if len(self.offsets) > 1 else 0

    @cached_property
    def entry_of(self) -> Ints | None:
        """Where nobody has more than one neighbour: the entry of each node, MISSING for none."""
        if self.largest > 1 or len(self.nodes) == 0:
            return None
        entries = self.offsets[:-1].astype(np.int32)
        entries[np.diff(self.offsets) == 0] = MISSING
        return entries

    @property
    def bytes_held(self) -> int:
        return int(self.offsets.nbytes + self.nodes.nbytes + self.edges.nbytes)


class Adjacency:
    """Built once per state of the three tables; each direction when first followed."""

    def __init__(self, edges: TableView, sources: TableView, targets: TableView) -> None:
        self._edges = edges
        self._source_view = sources
        self._target_view = targets

    @cached_property
    def out(self) -> Neighbours:
        source, target, edges = self._ends
        return _group(source, target, edges, self._source_view.count)

    @cached_property
    def into(self) -> Neighbours:
        source, target, edges = self._ends
        return _group(target, source, edges, self._target_view.count)

    @cached_property
    def out_pairs(self) -> Neighbours:
        return _pairs(self.out)

    @cached_property
    def into_pairs(self) -> Neighbours:
        return _pairs(self.into)

    @property
    def bytes_held(self) -> int:
        built = (self.__dict__.get(name) for name in ("out", "into", "out_pairs", "into_pairs"))
        distinct = {id(n): n for n in built if n is not None}
        return sum(n.bytes_held for n in distinct.values())

    @cached_property
    def _ends(self) -> tuple[Ints, Ints, Ints]:
        """(source, target, edge) positions; an edge without both its ends connects nothing."""
        source = self._source_view.find(self._edges.column("src"))
        target = self._target_view.find(self._edges.column("dst"))
        edges = np.arange(len(source), dtype=np.int32)
        whole = (source != MISSING) & (target != MISSING)
        if whole.all():
            return source, target, edges
        return source[whole], target[whole], edges[whole]


def _pairs(neighbours: Neighbours) -> Neighbours:
    """Parallel edges once: entries are sorted by node, so repeats stand side by side."""
    count = len(neighbours.offsets) - 1
    sources = np.repeat(np.arange(count), np.diff(neighbours.offsets))
    first = np.ones(len(sources), bool)
    first[1:] = (np.diff(sources) != 0) | (np.diff(neighbours.nodes) != 0)
    if first.all():
        return neighbours
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(sources[first], minlength=count), out=offsets[1:])
    return Neighbours(offsets, neighbours.nodes[first], neighbours.edges[first])


def _group(keys: Ints, nodes: Ints, edges: Ints, count: int) -> Neighbours:
    by_node = np.argsort(nodes, kind="stable")
    offsets, order = kernels.compress(keys[by_node], count)
    entries = by_node[order]
    return Neighbours(offsets, nodes[entries], edges[entries])

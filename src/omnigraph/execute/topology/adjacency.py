"""Who is connected to whom: both directions of one edge type between two node tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from omnigraph.execute.topology.id_changes import MISSING, Positions
from omnigraph.execute.topology.kernels import Ints
from omnigraph.execute.topology.memory_cache import Held, counted
from omnigraph.execute.topology.neighbours import Neighbours, StoredNeighbours, group
from omnigraph.execute.topology.stored_topology import StoredTopology
from omnigraph.execute.topology.table_content import TableContent

Contents = tuple[TableContent, TableContent, TableContent]
"""Of the edge table, of its sources, of its targets."""

OUT, INTO = "out", "into"

# The objects of an adjacency of which no direction is made.
_EMPTY_BYTES = 1_000
# Below this many edges starting a thread costs more than it saves.
_WORTH_THREADS = 50_000
# A hop by index, in edges of a build: `python -m bench crossovers`, 1M edges: a build takes 0.27 us
# an edge, a hop 3 ms and 0.4 ms a source.
_HOP = 11_000
_PER_SOURCE = 1_500


class Adjacency(Held, ABC):
    """Both directions of one state of three tables, each made when first followed."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self._spent = 0

    @counted
    def out(self) -> Neighbours:
        return self.make(OUT)

    @counted
    def into(self) -> Neighbours:
        return self.make(INTO)

    @property
    def made(self) -> dict[str, Neighbours]:
        """The directions that are in memory."""
        return {way: self.__dict__[way] for way in (OUT, INTO) if way in self.__dict__}

    @property
    def own_bytes(self) -> int:
        return _EMPTY_BYTES

    @property
    def parts(self) -> Iterable[Held]:
        return (*self.contents, *(near for near in self.made.values() if isinstance(near, Held)))

    def shed(self) -> None:
        for way in (OUT, INTO):
            self.__dict__.pop(way, None)

    @property
    def is_at_hand(self) -> bool:
        """Some direction can be followed without reading the tables."""
        return True

    def is_better_made(self, sources: int) -> bool:
        """Asked by whoever could do without: when it is there, or hops have cost as much."""
        if self.is_at_hand:
            return True
        self._spent += _HOP + sources * _PER_SOURCE
        return self._spent > self.contents[0].count

    @abstractmethod
    def make(self, direction: str) -> Neighbours: ...

    @abstractmethod
    def moved(self, contents: Contents) -> Adjacency:
        """The same edges of the same nodes, which are stored elsewhere now."""


class StoredAdjacency(Adjacency):
    """Built from the columns of the three tables, or mapped from the cache directory."""

    def __init__(self, contents: Contents, stored: StoredTopology) -> None:
        super().__init__(contents)
        self.stored = stored
        self._names = (contents[0].name, contents[1].name, contents[2].name)

    @property
    def is_whole(self) -> bool:
        """Every edge has both its ends."""
        near = next(iter(self.made.values()), None) or self.out
        return len(near.nodes) == self.contents[0].count

    @property
    def is_at_hand(self) -> bool:
        known = self.__dict__
        return OUT in known or INTO in known or self.stored.has_neighbours(self._names)

    def keep(self, direction: str, neighbours: StoredNeighbours) -> None:
        """Take a direction that somebody derived already."""
        self.__dict__[direction] = neighbours
        arrays = (neighbours.offsets, neighbours.nodes, neighbours.edges)
        self.stored.keep_neighbours(self._names, direction, *arrays)

    def moved(self, contents: Contents) -> StoredAdjacency:
        found = StoredAdjacency(contents, self.stored)
        found.__dict__.update(self.made)
        return found

    def make(self, direction: str) -> StoredNeighbours:
        mapped = self._mapped(direction)
        if mapped is not None:
            return mapped
        source, target, edges = self._ends()
        if direction == OUT:
            built = group(source, target, edges, self.contents[1].count)
        else:
            built = group(target, source, edges, self.contents[2].count)
        arrays = (built.offsets, built.nodes, built.edges)
        self.stored.keep_neighbours(self._names, direction, *arrays)
        return built

    def _mapped(self, direction: str) -> StoredNeighbours | None:
        edges, sources, targets = self.contents
        keys = sources if direction == OUT else targets
        found = self.stored.neighbours(self._names, direction, edges.count, keys.count)
        return None if found is None else StoredNeighbours(*found)

    def _ends(self) -> tuple[Ints, Ints, Ints]:
        """(source, target, edge) positions; an edge without both its ends connects nothing."""
        other = self.made
        if other:
            return _ends_of(*next(iter(other.items())))
        source, target = self._find_ends()
        edges = np.arange(len(source), dtype=np.int32)
        whole = (source != MISSING) & (target != MISSING)
        if whole.all():
            return source, target, edges
        return source[whole], target[whole], edges[whole]

    def _find_ends(self) -> tuple[Positions, Positions]:
        edges, sources, targets = self.contents

        def find(end: tuple[TableContent, str]) -> Positions:
            nodes, column = end
            return edges.ends_among(column, nodes)

        ends = ((sources, "src"), (targets, "dst"))
        if edges.count < _WORTH_THREADS:
            first, second = map(find, ends)
        else:
            # Arrow and Lance release the interpreter: two ends take little longer than one.
            with ThreadPoolExecutor(2) as threads:
                first, second = threads.map(find, ends)
        return first, second


def _ends_of(direction: str, near: Neighbours) -> tuple[Ints, Ints, Ints]:
    """The ends of every edge from one direction, in edge order."""
    keys = np.repeat(np.arange(len(near.offsets) - 1, dtype=np.int32), np.diff(near.offsets))
    size = int(near.edges.max()) + 1 if len(near.edges) else 0
    first, second = np.full(size, MISSING, np.int32), np.empty(size, np.int32)
    first[near.edges], second[near.edges] = keys, near.nodes
    edges = np.flatnonzero(first != MISSING).astype(np.int32)
    if len(edges) != size:
        first, second = first[edges], second[edges]
    return (first, second, edges) if direction == OUT else (second, first, edges)

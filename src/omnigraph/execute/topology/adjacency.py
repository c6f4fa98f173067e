"""Who is connected to whom: both directions of one edge type between two node tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.errors import SnapshotReclaimed, StorageFailure
from omnigraph.execute.topology.cache_files import StoredTopology
from omnigraph.execute.topology.id_changes import (
    MISSING,
    IdChanges,
    PositionPatch,
    Positions,
    position_patch,
)
from omnigraph.execute.topology.kernels import Ints
from omnigraph.execute.topology.memory_cache import Held, counted
from omnigraph.execute.topology.neighbours import (
    EntryChanges,
    Neighbours,
    PatchedNeighbours,
    StoredNeighbours,
    group,
)
from omnigraph.execute.topology.table_content import TableContent, one_chunk

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


@dataclass(frozen=True, slots=True)
class NewEdges:
    """Edges that came or were rewritten and have both ends: positions in the new state."""

    sources: Positions
    targets: Positions
    edges: Positions


class PatchedAdjacency(Adjacency):
    """Equal to a fresh build of its contents."""

    def __init__(
        self,
        contents: Contents,
        base: StoredAdjacency,
        patches: tuple[PositionPatch, PositionPatch, PositionPatch],
        new: NewEdges,
    ) -> None:
        super().__init__(contents)
        self.base = base
        self._patches = patches
        self._new = new

    @property
    def parts(self) -> Iterable[Held]:
        return (*super().parts, self.base)

    def make(self, direction: str) -> Neighbours:
        edges, sources, targets = self._patches
        outward = direction == OUT
        try:
            old = self.base.out if outward else self.base.into
        except (SnapshotReclaimed, StorageFailure):
            # The versions our base was read from are gone; ours hold all rows too.
            return StoredAdjacency(self.contents, self.base.stored).make(direction)
        assert isinstance(old, StoredNeighbours)
        keys, nodes = (sources, targets) if outward else (targets, sources)
        new_keys, new_nodes = (
            (self._new.sources, self._new.targets)
            if outward
            else (self._new.targets, self._new.sources)
        )
        order = np.lexsort((self._new.edges, new_nodes, new_keys))
        changes = EntryChanges(
            keys=keys,
            nodes=nodes,
            edges=edges,
            removed_edges=np.union1d(edges.deleted, edges.updated),
            new_keys=new_keys[order],
            new_nodes=new_nodes[order],
            new_edges=self._new.edges[order],
        )
        return PatchedNeighbours(old, changes)

    def moved(self, contents: Contents) -> PatchedAdjacency:
        found = PatchedAdjacency(contents, self.base, self._patches, self._new)
        found.__dict__.update(self.made)
        return found

    def settled(self, stored: StoredTopology) -> StoredAdjacency:
        """The same adjacency standing alone, in the directions that were in memory."""
        alone = StoredAdjacency(self.contents, stored)
        for direction in self.base.made:
            derived = self.out if direction == OUT else self.into
            assert isinstance(derived, PatchedNeighbours)
            alone.keep(direction, derived.whole)
        return alone


def patched_adjacency(
    contents: Contents, base: StoredAdjacency, changes: tuple[IdChanges, IdChanges, IdChanges]
) -> PatchedAdjacency | None:
    """None when only a fresh build is right."""
    edge_changes, source_changes, target_changes = changes
    if (source_changes.inserted or target_changes.inserted) and not base.is_whole:
        # A node that came may be the missing end of an edge that was there all the time.
        return None
    found = [position_patch(old, c) for old, c in zip(base.contents, changes, strict=True)]
    edges, sources, targets = found
    if edges is None or sources is None or targets is None:
        return None
    if any(
        p.new_count != c.count for p, c in zip((edges, sources, targets), contents, strict=True)
    ):
        return None
    new = _new_edges(contents, sorted(edge_changes.inserted | edge_changes.updated))
    if new is None:
        return None
    return PatchedAdjacency(contents, base, (edges, sources, targets), new)


def _new_edges(contents: Contents, ids: list[str]) -> NewEdges | None:
    edges, sources, targets = contents
    if not ids:
        nothing = np.empty(0, np.int32)
        return NewEdges(nothing, nothing, nothing)
    rows = edges.rows_of(pa.array(ids, pa.string()), ["src", "dst"])
    if rows.num_rows != len(ids):
        return None
    source, target, edge = (
        table.find(one_chunk(rows.column(name))) for table, name in _ends(sources, targets, edges)
    )
    whole = (source != MISSING) & (target != MISSING)
    return NewEdges(source[whole], target[whole], edge[whole])


def _ends(
    sources: TableContent, targets: TableContent, edges: TableContent
) -> tuple[tuple[TableContent, str], ...]:
    return (sources, "src"), (targets, "dst"), (edges, "id")

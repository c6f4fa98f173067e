"""Which nodes an edge type connects: both directions between two node tables.

An adjacency is built from the tables, mapped from the cache directory, or derived from an older
adjacency and the ids that commits changed (`PatchedAdjacency`).
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from omnigraph.errors import SnapshotReclaimed, StorageFailure
from omnigraph.execute.topology import kernels
from omnigraph.execute.topology.builds import build_step
from omnigraph.execute.topology.cache_files import StoredTopology
from omnigraph.execute.topology.edge_ends import count_ends
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
    Counts,
    EntryChanges,
    NeighbourLayer,
    Neighbours,
    PatchedNeighbours,
    StoredNeighbours,
    group,
    turned,
)
from omnigraph.execute.topology.table_content import TableContent, one_chunk

OUT, INTO = "out", "into"

# The bytes of the objects of an adjacency before a direction is built.
_EMPTY_BYTES = 1_000
# The bytes of an edge while its ends are read, found and sorted.
_BUILT_EDGE_BYTES = 80
# Mapping a file of neighbours and checking it, against building them.
_MAPPED_SHARE = 0.03
# Turning one direction into the other, against building it from the tables.
_TURNED_SHARE = 0.3


class EdgeContents(NamedTuple):
    """Contents of an edge table and of the node tables at its two ends."""

    edges: TableContent
    sources: TableContent
    targets: TableContent


class EdgeChanges(NamedTuple):
    """What changed in each of the three tables."""

    edges: IdChanges
    sources: IdChanges
    targets: IdChanges


class EdgePatches(NamedTuple):
    """How positions in each of the three tables changed."""

    edges: PositionPatch
    sources: PositionPatch
    targets: PositionPatch


class Adjacency(Held, ABC):
    """Both directions of one state of three tables; each is built when it is first followed."""

    def __init__(self, contents: EdgeContents) -> None:
        self.contents = contents
        self._moved_to: Adjacency | None = None

    @counted
    def out(self) -> Neighbours:
        return self._made_for_all(OUT)

    @counted
    def into(self) -> Neighbours:
        return self._made_for_all(INTO)

    def _made_for_all(self, direction: str) -> Neighbours:
        """A direction, which is also given to the adjacencies that this one moved to meanwhile."""
        near = self.__dict__[direction] = self.make(direction)
        later = self._moved_to
        while later is not None:
            later.__dict__.setdefault(direction, near)
            later.grown()
            later = later._moved_to  # noqa: SLF001 - of the same family
        return near

    def _move_to(self, later: Adjacency) -> None:
        """Give what is made, and what is being made. Both share the lock, so it is made once.

        `_moved_to` is set first, so that a direction that is ready meanwhile is not missed.
        """
        later.__dict__["_making"] = self.__dict__.setdefault("_making", threading.RLock())
        self._moved_to = later
        later.__dict__.update(self.made)

    @property
    def made(self) -> dict[str, Neighbours]:
        """The directions that are in memory."""
        return {way: self.__dict__[way] for way in (OUT, INTO) if way in self.__dict__}

    def in_memory(self, direction: str) -> Neighbours | None:
        """A direction, if it is in memory."""
        return self.__dict__.get(direction)

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
    def is_ready(self) -> bool:
        """Whether some direction can be followed without reading the tables."""
        return True

    def degrees(self, direction: str, *, per_edge: bool) -> Counts:
        """The number of neighbours of every node, or of its edges."""
        near = self.out if direction == OUT else self.into
        if not per_edge and isinstance(near, NeighbourLayer):
            return near.pair_counts
        return np.diff((near if per_edge else near.pairs).offsets)

    def can_follow(self, direction: str) -> bool:
        """Whether a direction can be followed with what is in memory."""
        return direction in self.__dict__

    @abstractmethod
    def piece(self, direction: str) -> Hashable:
        """Names what `build` makes."""

    @abstractmethod
    def build_cost(self, direction: str) -> float:
        """The cost of `build`, in edges that are read, found and sorted."""

    @property
    def build_bytes(self) -> int:
        """A guess at the memory that `build` takes at most."""
        edges, sources, targets = (content.unscoped for content in self.contents)
        ends = sum(content.build_bytes for content in {sources, targets})
        return edges.count * _BUILT_EDGE_BYTES + ends

    def build(self, direction: str) -> None:
        """Make a direction, and what queries have read from storage of the nodes at its ends."""
        near = self.out if direction == OUT else self.into
        build_step()
        _ = near.pairs, near.largest
        for content in self.contents[1:]:
            build_step()
            content.build()

    @abstractmethod
    def make(self, direction: str) -> Neighbours: ...

    @abstractmethod
    def moved(self, contents: EdgeContents) -> Adjacency:
        """The same edges and nodes, which are in other versions of the tables now."""


class StoredAdjacency(Adjacency):
    """Built from the columns of the three tables, or mapped from the cache directory."""

    def __init__(self, contents: EdgeContents, stored: StoredTopology) -> None:
        super().__init__(contents)
        self.stored = stored
        self._names = tuple(content.name for content in contents)

    @property
    def is_whole(self) -> bool:
        """Whether every edge has both its ends."""
        near = next(iter(self.made.values()), None) or self.out
        return len(near.nodes) == self.contents.edges.count

    @property
    def is_ready(self) -> bool:
        known = self.__dict__
        return OUT in known or INTO in known or self.stored.has_neighbours(self._names)

    def degrees(self, direction: str, *, per_edge: bool) -> Counts:
        made = self.made
        known = direction in made or self.stored.has_direction(self._names, direction)
        if known and "_counted" not in self.__dict__:
            return super().degrees(direction, per_edge=per_edge)
        edges, pairs = self._counted
        return (edges if per_edge else pairs)[direction]

    @counted
    def _counted(self) -> tuple[dict[str, Counts], dict[str, Counts]]:
        """(edges, pairs of ends) of every node by direction. Counting needs no order of entries."""
        for direction, near in self.made.items():
            return self._counts_of(direction, near), self._counts_of(direction, near.pairs)
        edges, sources, targets = self.contents
        source, target = edges.unordered_ends(sources, targets)
        whole = (source != MISSING) & (target != MISSING)
        if not whole.all():
            source, target = source[whole], target[whole]
        build_step()
        found = count_ends(source, target, (sources.count, targets.count))
        return (
            {OUT: found.edges_out, INTO: found.edges_into},
            {OUT: found.pairs_out, INTO: found.pairs_into},
        )

    def _counts_of(self, direction: str, near: Neighbours) -> dict[str, Counts]:
        """Both directions from one of them."""
        other, nodes = (
            (INTO, self.contents.targets) if direction == OUT else (OUT, self.contents.sources)
        )
        across = np.bincount(near.nodes, minlength=nodes.count)
        return {direction: np.diff(near.offsets), other: across}

    @property
    def own_bytes(self) -> int:
        made = self.__dict__.get("_counted", ())
        arrays = {id(array): array for counts in made for array in counts.values()}
        return _EMPTY_BYTES + sum(int(array.nbytes) for array in arrays.values())

    def shed(self) -> None:
        super().shed()
        self.__dict__.pop("_counted", None)

    def piece(self, direction: str) -> Hashable:
        return "adjacency", self._names, direction

    def build_cost(self, direction: str) -> float:
        edges, sources, targets = self.contents
        nodes = sum(c.build_cost for c in {sources, targets} if not c.is_loaded)
        if self.made:
            return nodes + edges.count * _TURNED_SHARE
        has_file = self.stored.has_neighbours(self._names)
        return nodes + edges.count * (_MAPPED_SHARE if has_file else 1.0)

    def keep(self, direction: str, neighbours: StoredNeighbours) -> None:
        """Take a direction that was derived."""
        self.__dict__[direction] = neighbours
        self._save(direction, neighbours)

    def moved(self, contents: EdgeContents) -> StoredAdjacency:
        found = StoredAdjacency(contents, self.stored)
        self._move_to(found)
        return found

    def make(self, direction: str) -> StoredNeighbours:
        mapped = self._mapped(direction)
        if mapped is not None:
            return mapped
        _, sources, targets = self.contents
        count = (sources if direction == OUT else targets).count
        other = next(iter(self.made.values()), None)
        if other is not None:
            built = turned(other, count)
        else:
            source, target, edges = self._ends()
            build_step()
            keys, nodes = (source, target) if direction == OUT else (target, source)
            built = group(keys, nodes, edges, count)
        build_step()
        self._save(direction, built)
        return built

    def _save(self, direction: str, near: StoredNeighbours) -> None:
        self.stored.keep_neighbours(self._names, direction, near.offsets, near.nodes, near.edges)

    def _mapped(self, direction: str) -> StoredNeighbours | None:
        edges, sources, targets = self.contents
        keys = sources if direction == OUT else targets
        found = self.stored.neighbours(self._names, direction, edges.count, keys.count)
        return None if found is None else StoredNeighbours(*found)

    def _ends(self) -> tuple[Ints, Ints, Ints]:
        """(source, target, edge) positions of the edges that have both ends."""
        edges, sources, targets = self.contents
        kernels.expect_build(edges.count)
        source, target = edges.ends_among(sources, targets)
        every = np.arange(len(source), dtype=np.int32)
        whole = (source != MISSING) & (target != MISSING)
        if whole.all():
            return source, target, every
        return source[whole], target[whole], every[whole]


@dataclass(frozen=True, slots=True)
class NewEdges:
    """Inserted and updated edges that have both ends, as positions in the new state."""

    sources: Positions
    targets: Positions
    edges: Positions


class PatchedAdjacency(Adjacency):
    """Derived from an older adjacency, and equal to a new build from its contents."""

    def __init__(
        self,
        contents: EdgeContents,
        base: StoredAdjacency,
        patches: EdgePatches,
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
            # The versions of the base are cleaned up. The versions of this state have all rows.
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

    def can_follow(self, direction: str) -> bool:
        return direction in self.__dict__ or self.base.can_follow(direction)

    def piece(self, direction: str) -> Hashable:
        return self.base.piece(direction)

    def build_cost(self, direction: str) -> float:
        return self.base.build_cost(direction)

    def moved(self, contents: EdgeContents) -> PatchedAdjacency:
        found = PatchedAdjacency(contents, self.base, self._patches, self._new)
        self._move_to(found)
        return found

    def settled(self, stored: StoredTopology) -> StoredAdjacency:
        """A copy that needs no base, in the directions that the base has in memory."""
        alone = StoredAdjacency(self.contents, stored)
        for direction in self.base.made:
            derived = self.out if direction == OUT else self.into
            assert isinstance(derived, PatchedNeighbours)
            alone.keep(direction, derived.whole)
        return alone


def patched_adjacency(
    contents: EdgeContents, base: StoredAdjacency, changes: EdgeChanges
) -> PatchedAdjacency | None:
    """None when only a new build is correct."""
    if (changes.sources.inserted or changes.targets.inserted) and not base.is_whole:
        # A new node may be the missing end of an old edge.
        return None
    found = [position_patch(old, c) for old, c in zip(base.contents, changes, strict=True)]
    edges, sources, targets = found
    if edges is None or sources is None or targets is None:
        return None
    patches = EdgePatches(edges, sources, targets)
    if any(p.new_count != c.count for p, c in zip(patches, contents, strict=True)):
        return None
    new = _new_edges(contents, sorted(changes.edges.inserted | changes.edges.updated))
    return None if new is None else PatchedAdjacency(contents, base, patches, new)


def _new_edges(contents: EdgeContents, ids: list[str]) -> NewEdges | None:
    edges, sources, targets = contents
    if not ids:
        nothing = np.empty(0, np.int32)
        return NewEdges(nothing, nothing, nothing)
    rows = edges.rows_of(pa.array(ids, pa.string()), ["src", "dst"])
    if rows.num_rows != len(ids):
        return None
    source = sources.find(one_chunk(rows.column("src")))
    target = targets.find(one_chunk(rows.column("dst")))
    edge = edges.find(one_chunk(rows.column("id")))
    whole = (source != MISSING) & (target != MISSING)
    return NewEdges(source[whole], target[whole], edge[whole])

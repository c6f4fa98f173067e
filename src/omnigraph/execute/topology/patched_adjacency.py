"""An adjacency derived from an older one and what commits changed in its three tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.errors import SnapshotReclaimed, StorageFailure
from omnigraph.execute.topology.adjacency import OUT, Adjacency, Contents, StoredAdjacency
from omnigraph.execute.topology.id_changes import (
    MISSING,
    IdChanges,
    PositionPatch,
    Positions,
    position_patch,
)
from omnigraph.execute.topology.memory_cache import Held
from omnigraph.execute.topology.neighbours import Neighbours, StoredNeighbours
from omnigraph.execute.topology.patched_neighbours import EntryChanges, PatchedNeighbours
from omnigraph.execute.topology.stored_topology import StoredTopology
from omnigraph.execute.topology.table_content import TableContent, one_chunk


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

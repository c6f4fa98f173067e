"""Who is connected to whom: both directions of one edge type between two node views."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from omnigraph.execute.local import kernels
from omnigraph.execute.local.entity_view import MISSING, TableView
from omnigraph.execute.local.kernels import Ints, Offsets


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Entries grouped by source position, ascending by neighbour, then by edge."""

    offsets: Offsets
    nodes: Ints
    edges: Ints

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

    @property
    def bytes_held(self) -> int:
        built = (self.__dict__.get(name) for name in ("out", "into"))
        return sum(n.bytes_held for n in built if n is not None)

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


def _group(keys: Ints, nodes: Ints, edges: Ints, count: int) -> Neighbours:
    by_node = np.argsort(nodes, kind="stable")
    offsets, order = kernels.compress(keys[by_node], count)
    entries = by_node[order]
    return Neighbours(offsets, nodes[entries], edges[entries])

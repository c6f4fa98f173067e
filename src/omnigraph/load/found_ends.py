"""Ends of streamed edges, which are looked up among the stored nodes while the input is read.

The proof that every end is a node would have to read the ends back from the fragments. To look them
up while they are in memory costs less than half of that. What is found holds for the stored rows of
one content epoch. If another writer changed the nodes since then, the ends are read back.
"""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

from omnigraph.catalog.model import SOURCE, TARGET, EdgeType
from omnigraph.errors import SnapshotReclaimed
from omnigraph.lance_store.reads.scan import id_batches
from omnigraph.lance_store.store import Store
from omnigraph.load.key_index import MANY_ROWS, KeyIndex
from omnigraph.load.proofs import FoundEnds, IdTable
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import TableKey, node_table


class StoredNodes:
    """The ids of the nodes that are stored when a load begins; they are read when edges come."""

    def __init__(self, store: Store, snapshot: Snapshot, index: KeyIndex) -> None:
        self._store = store
        self._snapshot = snapshot
        self._index = index
        self._tables: dict[TableKey, IdTable | None] = {}
        self._count = 0

    def ends_of(self, edge: EdgeType, first_row: int) -> list[FoundEnds]:
        """Lookups for the rows of an edge type from this one on; the index gets to know them."""
        ends = ((SOURCE, edge.source), (TARGET, edge.target))
        found = []
        for node in {node_table(name) for _, name in ends}:
            columns = [column for column, name in ends if name == node.type_name]
            stored = self._table(node)
            if stored is not None:
                epoch = self._snapshot.pin(node).content_epoch
                found.append(FoundEnds(columns, stored, epoch, first_row))
                self._index.offer_ends(edge.table_key, node, found[-1])
        return found

    def _table(self, node: TableKey) -> IdTable | None:
        """None if no node is stored or readable, or if all tables together would be too large."""
        if node not in self._tables:
            pin = self._snapshot.pin(node)
            fits = IdTable.fits(self._count + pin.row_count, self._index.memory_bytes)
            table = None
            if pin.row_count and fits:
                # Reading the input may take longer than cleanup waits. The checks read newer rows.
                with suppress(SnapshotReclaimed):
                    stored = id_batches(self._store.open(pin.at))
                    ids = (pa.chunked_array([some]) for some in stored)
                    table = IdTable.of(ids, pin.row_count)
                    self._count += pin.row_count
            self._tables[node] = table
        return self._tables[node]


class EndLookup:
    """Looks up the ends of one edge type, from the row on that makes compiled loops worth it."""

    def __init__(self, edge: EdgeType, nodes: StoredNodes) -> None:
        self._edge = edge
        self._nodes = nodes
        self._rows = 0
        self._found: list[FoundEnds] | None = None

    def add(self, rows: pa.Table) -> None:
        """The next rows, in the order in which they are stored."""
        before, self._rows = self._rows, self._rows + rows.num_rows
        if self._found is None and self._rows > MANY_ROWS:
            self._found = self._nodes.ends_of(self._edge, before)
        for found in self._found or ():
            found.add(rows)

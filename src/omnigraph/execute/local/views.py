"""Views and adjacency of one snapshot, taken from a cache that all snapshots share.

The cache key is the exact dataset version, so branches and snapshots that share a table share its
view; what was used longest ago goes first when the memory bound is crossed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from omnigraph.catalog.model import Catalog
from omnigraph.execute.local.adjacency import Adjacency
from omnigraph.execute.local.entity_view import EntityView, TableView, UnionView
from omnigraph.ir.expressions import Variable, VariableKind
from omnigraph.lance_store.store import Store
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import TableKey, edge_table, node_table


class ViewCache:
    """Bounded by bytes; shared by the queries of a process."""

    def __init__(self, store: Store, limit_bytes: int) -> None:
        self.store = store
        self._limit = limit_bytes
        self._lock = threading.RLock()
        self._entries: OrderedDict[Any, Any] = OrderedDict()

    def get(self, key: Any, make: Callable[[], Any]) -> Any:
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                found = self._entries[key] = make()
                self._shrink()
            else:
                self._entries.move_to_end(key)
            return found

    def _shrink(self) -> None:
        held = sum(entry.bytes_held for entry in self._entries.values())
        while held > self._limit and len(self._entries) > 1:
            _, dropped = self._entries.popitem(last=False)
            held -= dropped.bytes_held


class SnapshotViews:
    """What one query sees."""

    def __init__(self, snapshot: Snapshot, cache: ViewCache) -> None:
        self._snapshot = snapshot
        self._cache = cache
        self.catalog: Catalog = snapshot.catalog
        self._known: dict[Any, Any] = {}

    def table(self, key: TableKey) -> TableView:
        found: TableView | None = self._known.get(key)
        if found is None:
            at = self._snapshot.pin(key).at
            found = self._cache.get(
                at, lambda: TableView(key.type_name, self._cache.store.open(at))
            )
            self._known[key] = found
        return found

    def of(self, variable: Variable) -> EntityView:
        """The view of everything a variable may be bound to."""
        name = (variable.kind, variable.types)
        found: EntityView | None = self._known.get(name)
        if found is None:
            table = node_table if variable.kind is VariableKind.NODE else edge_table
            views = [self.table(table(type_name)) for type_name in variable.types]
            found = self._known[name] = views[0] if len(views) == 1 else UnionView(views)
        return found

    def adjacency(self, edge_name: str) -> Adjacency:
        edge = self.catalog.edge_types[edge_name]
        tables = (edge_table(edge.name), node_table(edge.source), node_table(edge.target))
        found: Adjacency | None = self._known.get(tables)
        if found is None:
            key = ("adjacency", *(self._snapshot.pin(t).at for t in tables))
            found = self._cache.get(key, lambda: Adjacency(*(self.table(t) for t in tables)))
            self._known[tables] = found
        return found

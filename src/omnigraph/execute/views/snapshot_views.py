"""The views and the adjacency of one snapshot, taken from a cache that all snapshots share.

Branches, snapshots and versions with the same rows share contents and adjacency. A view belongs to
one version, because it knows where the rows are on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from omnigraph.catalog.model import Catalog
from omnigraph.execute.topology.adjacency import Adjacency
from omnigraph.execute.topology.builds import Builds
from omnigraph.execute.topology.cache_files import CacheFiles, StoredTopology
from omnigraph.execute.topology.memory_cache import MemoryCache
from omnigraph.execute.topology.scoped_states import RowRule
from omnigraph.execute.topology.table_states import (
    ContentLineage,
    DeriveLimits,
    EdgePins,
    EdgeRules,
    Topology,
)
from omnigraph.execute.views.entity_view import EntityView, TableView, UnionView
from omnigraph.ir.expressions import Variable, VariableKind
from omnigraph.lance_store.search.vector_columns import VectorColumns
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import TablePin
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.stored_columns import require_columns
from omnigraph.values.identifiers import TableKey, edge_table, node_table

NO_FILES = StoredTopology(CacheFiles(None, 0))

# Vectors for exact search may take this part of the memory.
_VECTOR_SHARE = 4


class ViewCache:
    """Shared by all queries of an open graph, and bounded in bytes."""

    def __init__(
        self,
        reader: ManifestReader,
        limit_bytes: int,
        stored: StoredTopology = NO_FILES,
        limits: DeriveLimits | None = None,
        builds: Builds | None = None,
    ) -> None:
        self.store = reader.store
        self.builds = builds or Builds()
        self.vectors = VectorColumns(limit_bytes // _VECTOR_SHARE)
        self.memory = MemoryCache(limit_bytes, lambda: self.vectors.used_bytes)
        self.topology = Topology(
            reader.store,
            self.memory,
            stored,
            ContentLineage(reader),
            limits or DeriveLimits(),
            self.builds,
        )

    def table(
        self, pin: TablePin, hidden: frozenset[str] = frozenset(), rule: RowRule | None = None
    ) -> TableView:
        # A type can be renamed without a new version of its table.
        scope = (hidden, None if rule is None else rule.name)
        name = (pin.at, pin.key.type_name, *scope)
        found: TableView | None = self.memory.peek(name)
        if found is None or found.content.name.epoch != pin.content_epoch:
            content = self.topology.scoped_content(pin, rule)
            dataset = self.store.open(pin.at)
            view = TableView(pin.key.type_name, dataset, content, self.vectors, self.builds, hidden)
            found = self.memory.keep(name, view, ("view", pin.location, pin.branch, *scope))
        return found


class SnapshotViews:
    """The views of one snapshot, which have only the rows and columns of its scope.

    Operators get entities from here and from nowhere else, so no operator needs to know rules.
    `rules` are the rules about rows, by type.
    """

    def __init__(
        self, snapshot: Snapshot, cache: ViewCache, rules: Mapping[str, RowRule] = {}
    ) -> None:
        self._snapshot = snapshot
        self._cache = cache
        self._rules = rules
        self.catalog: Catalog = snapshot.catalog
        self.branch = snapshot.graph_branch
        self.builds = cache.builds
        self._known: dict[Any, Any] = {}

    def table(self, key: TableKey) -> TableView:
        found: TableView | None = self._known.get(key)
        if found is None:
            pin = self._snapshot.pin(key)
            require_columns(self._cache.store, self._snapshot, pin)
            scope = self._snapshot.scope
            hidden = frozenset[str]() if scope is None else scope.types[key.type_name].hidden
            rule = self._rules.get(key.type_name)
            found = self._known[key] = self._cache.table(pin, hidden, rule)
        return found

    def of(self, variable: Variable) -> EntityView:
        """The view of all entities that a variable can be bound to."""
        name = (variable.kind, variable.types)
        found: EntityView | None = self._known.get(name)
        if found is None:
            table = node_table if variable.kind is VariableKind.NODE else edge_table
            views = [self.table(table(type_name)) for type_name in variable.types]
            found = self._known[name] = views[0] if len(views) == 1 else UnionView(views)
        return found

    def at(self, newer: Snapshot) -> SnapshotViews | None:
        """The views of a newer state in the same scope; None when the scope does not fit it."""
        own, scope = self._snapshot, self._snapshot.scope
        if newer.graph_commit_id == own.graph_commit_id:
            return None
        if scope is not None:
            if newer.schema_id != own.schema_id or scope.is_momentary:
                return None
            tables = {key: newer.tables[key] for key in own.tables if key in newer.tables}
            newer = replace(newer, catalog=own.catalog, tables=tables, scope=scope)
        return SnapshotViews(newer, self._cache, self._rules)

    def warm_like(self, older: SnapshotViews) -> None:
        """Make what queries of an older state of the branch used: derived now, or built beside."""
        builds = self._cache.builds
        for name, used in list(older._known.items()):
            if isinstance(name, TableKey) and name in self._snapshot.tables:
                content = self.table(name).content
                if used.content.is_loaded and not content.is_loaded:
                    builds.start_new(content.piece, content.build_bytes, content.build)
            elif name[0] == "adjacency" and name[1] in self.catalog.edge_types:
                near = self.adjacency(name[1])
                for way in used.made:
                    if not near.can_follow(way):
                        make = partial(near.build, way)
                        builds.start_new(near.piece(way), near.build_bytes, make)

    def adjacency(self, edge_name: str) -> Adjacency:
        found: Adjacency | None = self._known.get(("adjacency", edge_name))
        if found is None:
            edge = self.catalog.edge_types[edge_name]
            tables = (edge_table(edge.name), node_table(edge.source), node_table(edge.target))
            pins = EdgePins(*(self._snapshot.pin(table) for table in tables))
            rules = EdgeRules(*(self._rules.get(table.type_name) for table in tables))
            found = self._cache.topology.scoped_adjacency(pins, rules)
            self._known["adjacency", edge_name] = found
        return found

"""What a writer may change, name and read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from omnigraph.catalog.model import Catalog
from omnigraph.ir.data_scope import DataScope, TypeScope, visible_catalog
from omnigraph.manifest.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class WriteScopes:
    """What a writer may change and what it may see, in one catalog; None is everything."""

    change: DataScope | None
    read: DataScope | None

    @property
    def is_everything(self) -> bool:
        return self.change is None and self.read is None

    def may_name(self, type_name: str) -> bool:
        """Whether the writer may change or see something of a type."""
        return any(scope is None or type_name in scope.types for scope in (self.change, self.read))

    def named(self, catalog: Catalog) -> Catalog:
        """The types and properties that the writer may change or see: those it may name."""
        if self.change is None or self.read is None:
            return catalog  # one of both is everything
        names = {**self.change.types, **self.read.types}
        both = {name: self._either(name) for name in names}
        made = visible_catalog(catalog, DataScope("", both))
        return catalog if made == catalog else made

    def _either(self, name: str) -> TypeScope:
        assert self.change is not None
        assert self.read is not None
        found = [scope.types[name] for scope in (self.change, self.read) if name in scope.types]
        return TypeScope(frozenset.intersection(*(scoped.hidden for scoped in found)))


@dataclass(frozen=True, slots=True)
class WriterView:
    """What a write may name and read in the snapshot that it is built on."""

    scopes_of: Callable[[Catalog], WriteScopes]
    within: Callable[[Snapshot, DataScope], Snapshot]

    def named(self, catalog: Catalog) -> Catalog:
        """The catalog without what the writer may neither change nor see."""
        return self.scopes_of(catalog).named(catalog)

    def is_partial(self, catalog: Catalog) -> bool:
        """Whether some of the graph is out of the writer's sight or reach."""
        return not self.scopes_of(catalog).is_everything

    def readable(self, catalog: Catalog) -> Catalog:
        """The catalog without what the writer may not see."""
        scope = self.scopes_of(catalog).read
        return catalog if scope is None else visible_catalog(catalog, scope)

    def seen(self, snapshot: Snapshot) -> Snapshot:
        """The part of a snapshot that the write may read."""
        scope = self.scopes_of(snapshot.catalog).read
        return snapshot if scope is None else self.within(snapshot, scope)

    def hides(self, catalog: Catalog, type_name: str, name: str) -> bool:
        """Whether the write may not read this property."""
        scope = self.scopes_of(catalog).read
        if scope is None:
            return False
        scoped = scope.types.get(type_name)
        return scoped is None or name in scoped.hidden

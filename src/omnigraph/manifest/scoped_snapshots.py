"""Snapshots with only the part of a graph that an actor may see.

Plans are kept by the identity of catalogs and tables, so one state in one scope has one catalog
object and one `tables` object. Actors with equal rules share them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from omnigraph.catalog.identity import fingerprint
from omnigraph.catalog.model import Catalog
from omnigraph.ir.data_scope import DataScope, at_moment, depends_on_time, visible_catalog
from omnigraph.manifest.records import TablePin
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.bounded_cache import BoundedCache
from omnigraph.values.clock import Clock
from omnigraph.values.identifiers import TableKey
from omnigraph.values.temporal import moment_from_millis

_MOST = 256


@dataclass(frozen=True, slots=True)
class _ScopedState:
    """It holds `whole`, whose identity is part of its key."""

    whole: Mapping[TableKey, TablePin]
    scope: DataScope
    catalog: Catalog
    tables: Mapping[TableKey, TablePin]
    uncounted: frozenset[TableKey]


@dataclass(frozen=True, slots=True)
class _Scoped:
    """It holds `whole`, whose identity is part of its key."""

    whole: Snapshot
    scoped: Snapshot


class ScopedSnapshots:
    """Makes the scoped form of each state once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timed: BoundedCache[tuple[str, str], bool] = BoundedCache(_MOST)
        self._states: BoundedCache[tuple[int, str, str], _ScopedState] = BoundedCache(_MOST)
        self._snapshots: BoundedCache[tuple[int, str], _Scoped] = BoundedCache(_MOST)
        self._catalogs: BoundedCache[tuple[str, str], Catalog] = BoundedCache(_MOST)

    def within(self, snapshot: Snapshot, scope: DataScope) -> Snapshot:
        """The snapshot without what is out of scope. Its catalog is the one of the scope."""
        print_of = fingerprint(snapshot.catalog)
        scope = self._now(print_of, scope)
        known = self._snapshots.get((id(snapshot), scope.key))
        if known is None:
            known = _Scoped(snapshot, self._make(snapshot, scope, print_of))
            self._snapshots.put((id(snapshot), scope.key), known)
        return known.scoped

    def _make(self, snapshot: Snapshot, scope: DataScope, print_of: str) -> Snapshot:
        key = (id(snapshot.tables), print_of, scope.key)
        found = self._states.get(key)
        if found is None:
            catalog = self._catalogs.get((print_of, scope.key))
            if catalog is None:
                made = visible_catalog(snapshot.catalog, scope)
                catalog = self._catalogs.get_or_put((print_of, scope.key), made)
            found = self._states.get_or_put(key, _scoped(snapshot, scope, catalog))
        return replace(
            snapshot,
            catalog=found.catalog,
            tables=found.tables,
            scope=found.scope,
            uncounted=found.uncounted,
        )

    def _now(self, print_of: str, scope: DataScope) -> DataScope:
        """Rules that ask for the time hold for the second in which a read begins."""
        timed = self._timed.get((print_of, scope.key))
        if timed is None:
            timed = depends_on_time(scope)
            self._timed.put((print_of, scope.key), timed)
        if not timed:
            return scope
        second = moment_from_millis(self._clock.now_micros() // 1_000_000 * 1000)
        assert second is not None
        return at_moment(scope, second)


def _scoped(snapshot: Snapshot, scope: DataScope, catalog: Catalog) -> _ScopedState:
    visible = {entity.table_key: entity for entity in catalog.entity_types()}
    tables = {key: pin for key, pin in snapshot.tables.items() if key in visible}
    uncounted = frozenset(key for key in tables if scope.may_hide_rows(visible[key]))
    return _ScopedState(snapshot.tables, scope, catalog, tables, uncounted)

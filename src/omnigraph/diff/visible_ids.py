"""Ids that may differ between the parts of two snapshots that their scopes show.

A changed row makes its entity visible or hides it. It also does so with the edges of the entity,
although their rows are the same. Where the rules of both states differ, because the schema between
them changed, every id of the type may differ.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import SOURCE, TARGET, EdgeType, EntityType
from omnigraph.diff.differing_ids import DifferingIds, TablePair, differing_tables
from omnigraph.diff.entity_rows import (
    TableAt,
    TypeIdentity,
    identity_of,
    sort_key,
    tables_by_identity,
)
from omnigraph.diff.id_runs import IdRuns, Scratch
from omnigraph.ir.expressions import Expression
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.store import Store
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.scoping.visible_rows import VisibleRows

_NODES_AT_ONCE = 4096


def visible_pairs(before: Snapshot, after: Snapshot) -> list[TablePair]:
    """Types whose visible rows may differ: nodes before edges, then by name."""
    found = differing_tables(before, after)
    if before.scope is None and after.scope is None:
        return found
    known = {pair.identity for pair in found}
    old, new = tables_by_identity(before), tables_by_identity(after)
    equal = [TablePair(i, old[i], new[i]) for i in old if i in new and i not in known]
    turning = {p.identity for p in found if _rule(before, p.before) or _rule(after, p.after)}
    turning |= {p.identity for p in equal if _rule(before, p.before) != _rule(after, p.after)}
    touched = [
        pair
        for pair in equal
        if pair.identity in turning or any(end in turning for end in _end_identities(after, pair))
    ]
    return sorted([*found, *touched], key=lambda pair: sort_key(pair.key))


class VisibleIds:
    """Ids that may differ in what two scoped snapshots show; a superset of those that do."""

    def __init__(
        self, store: Store, before: Snapshot, after: Snapshot, ids: DifferingIds, scratch: Scratch
    ) -> None:
        self._store = store
        self._before, self._after = before, after
        self._sides = VisibleRows(store, before), VisibleRows(store, after)
        self._ids = ids
        self._scratch = scratch
        self._is_scoped = before.scope is not None or after.scope is not None
        pairs = visible_pairs(before, after) if self._is_scoped else []
        self._pairs = {pair.identity: pair for pair in pairs}
        self._turned: dict[TypeIdentity, IdRuns | None] = {}

    @property
    def sides(self) -> tuple[VisibleRows, VisibleRows]:
        """The visible rows of both snapshots."""
        return self._sides

    def runs(self, pair: TablePair) -> IdRuns:
        if not self._is_scoped:
            return self._ids.runs(pair)
        if pair.after is None or self._rules_differ(pair):
            return self._ids.scanned(pair)
        turned = []
        for column, end in _ends(pair.after.entity):
            runs = self._turned_nodes(end)
            if runs is None:
                return self._ids.scanned(pair)
            turned.append((column, runs))
        found = self._ids.runs(pair)
        for column, runs in turned:
            for nodes in runs.chunks(size=lambda: _NODES_AT_ONCE):
                for edges in self._edges_at(pair, column, nodes):
                    found.add(edges)
        return found

    def _edges_at(self, pair: TablePair, column: str, nodes: pa.Array) -> Iterator[pa.Array]:
        for table in (pair.before, pair.after):
            if table is not None:
                dataset = self._store.open(table.pin.at)
                rows = find_rows(dataset, nodes, ["id"], key=column)
                yield from rows.column("id").chunks

    def _turned_nodes(self, name: str) -> IdRuns | None:
        """Nodes of a type that only one state shows; None if any of them may be one."""
        identity = identity_of(self._after.catalog.node_types[name])
        if identity not in self._turned:
            self._turned[identity] = self._find_turned(identity)
        return self._turned[identity]

    def _find_turned(self, identity: TypeIdentity) -> IdRuns | None:
        turned = IdRuns(self._scratch)
        pair = self._pairs.get(identity)
        if pair is None:
            return turned
        if self._rules_differ(pair):
            return None
        if all(
            table is None or side.shows_all(table.pin.key)
            for table, side in zip((pair.before, pair.after), self._sides, strict=True)
        ):
            return turned  # its nodes come and go with their edges
        for ids in self._ids.runs(pair).chunks():
            shown = [
                pc.is_in(ids, value_set=side.among(table.pin.key, ids))
                if table is not None
                else pa.repeat(False, len(ids))
                for table, side in zip((pair.before, pair.after), self._sides, strict=True)
            ]
            turned.add(ids.filter(pc.xor(*shown)))
        return turned

    def _rules_differ(self, pair: TablePair) -> bool:
        return _rule(self._before, pair.before) != _rule(self._after, pair.after)


def _rule(snapshot: Snapshot, table: TableAt | None) -> Expression | bool | None:
    """The predicate of a type in one state; False if the state does not have the type."""
    if table is None:
        return False
    if snapshot.scope is None:
        return None
    scoped = snapshot.scope.types.get(table.entity.name)
    return False if scoped is None else scoped.rows


def _ends(entity: EntityType) -> list[tuple[str, str]]:
    """The columns and types of the ends of an edge type; empty for a node type."""
    if not isinstance(entity, EdgeType):
        return []
    return [(SOURCE, entity.source), (TARGET, entity.target)]


def _end_identities(snapshot: Snapshot, pair: TablePair) -> list[TypeIdentity]:
    ends = _ends(pair.after.entity) if pair.after is not None else []
    return [identity_of(snapshot.catalog.node_types[name]) for _, name in ends]

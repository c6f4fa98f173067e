"""Rules that the merged graph breaks although each side kept them: conflicts of their own.

Two branches can each be right and their union wrong: an edge added here to a node deleted there,
one unique value given twice. The finding names an entity; the winner says whose state it takes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import SOURCE, TARGET, Catalog
from omnigraph.diff.entity_rows import IMAGE_NAMES
from omnigraph.integrity.rules import EdgesPerSource, EndpointExists, UniqueTuple
from omnigraph.integrity.violations import Violation
from omnigraph.lance_store.reads.row_lookup import find_candidates, find_rows
from omnigraph.lance_store.store import Store
from omnigraph.merge.conflicts import Conflict, ConflictKind
from omnigraph.merge.content import Content
from omnigraph.merge.decisions import Side, Take
from omnigraph.merge.merger import Sides, identity_of
from omnigraph.merge.three_way import Forced
from omnigraph.values.identifiers import TableKey, node_table

_KINDS = {
    EndpointExists.name: ConflictKind.ORPHAN_EDGE,
    UniqueTuple.name: ConflictKind.UNIQUE_VIOLATION,
    EdgesPerSource.name: ConflictKind.CARDINALITY_VIOLATION,
}


@dataclass
class ForcedTables:
    """Forced decisions while they grow."""

    takes: dict[TableKey, dict[str, Take]] = field(default_factory=dict)
    keep_from: dict[TableKey, dict[str, Side]] = field(default_factory=dict)

    def take(self, key: TableKey, entity_id: str, take: Take) -> bool:
        """True when this is news."""
        known = self.takes.setdefault(key, {})
        if known.get(entity_id) == take:
            return False
        known[entity_id] = take
        return True

    def take_all(self, key: TableKey, entity_ids: list[str], take: Take) -> bool:
        news = [self.take(key, entity_id, take) for entity_id in entity_ids]
        return any(news)

    def keep(self, key: TableKey, entity_id: str, side: Side) -> None:
        self.keep_from.setdefault(key, {})[entity_id] = side

    @property
    def count(self) -> int:
        """Entities decided so far."""
        takes = sum(len(known) for known in self.takes.values())
        return takes + sum(len(known) for known in self.keep_from.values())

    def by_table(self) -> dict[TableKey, Forced]:
        keys = {**self.takes, **self.keep_from}
        return {k: Forced(self.takes.get(k, {}), self.keep_from.get(k, {})) for k in keys}


class ConstraintConflicts:
    """Turns violations of the merged graph into conflicts, and decisions into forced rows."""

    def __init__(self, store: Store, sides: Sides, catalog: Catalog) -> None:
        self._store = store
        self._sides = sides
        self._catalog = catalog

    def conflict(self, found: Violation) -> Conflict:
        kind = _KINDS.get(found.rule, ConflictKind.VALUE_CONSTRAINT_VIOLATION)
        name = found.property if kind is not ConflictKind.ORPHAN_EDGE else None
        values = [self._value(side, found, kind, name) for side in self._sides.all]
        return Conflict(
            _table(found).kind.value,
            _table(found).type_name,
            found.entity_id or "",
            kind.value,
            str(found),
            name,
            *values,
        )

    def settle(self, found: Violation, take: Take, forced: ForcedTables) -> bool:
        """Carry out a decision; False when nothing is left to try."""
        kind = _KINDS.get(found.rule, ConflictKind.VALUE_CONSTRAINT_VIOLATION)
        entity_id = found.entity_id or ""
        if kind is ConflictKind.CARDINALITY_VIOLATION:
            edges = self._edges_of(_table(found), entity_id)
            return forced.take_all(_table(found), edges, take)
        if kind is ConflictKind.ORPHAN_EDGE:
            return self._settle_orphan(_table(found), entity_id, take, forced)
        if kind is ConflictKind.UNIQUE_VIOLATION and take.side is Side.THEIRS:
            return self._let_theirs_have_it(found, take, forced)
        if take.side is Side.VALUE and found.property is not None and "," not in found.property:
            take = Take(Side.VALUE, {found.property: take.value})
        return forced.take(_table(found), entity_id, take)

    def _settle_orphan(self, key: TableKey, edge_id: str, take: Take, forced: ForcedTables) -> bool:
        edge = self._catalog.edge_types[key.type_name]
        if take.side in (Side.OURS, Side.THEIRS):
            winner = self._sides.ours if take.side is Side.OURS else self._sides.theirs
            row = self._row(winner, key, edge_id)
            if row is not None:
                # The side that has the edge also has its ends: the deleted one comes back.
                for column, node in ((SOURCE, edge.source), (TARGET, edge.target)):
                    forced.keep(node_table(node), row[column], take.side)
        return forced.take(key, edge_id, take)

    def _let_theirs_have_it(self, found: Violation, take: Take, forced: ForcedTables) -> bool:
        """Our entities that hold the value give way to what theirs says about them."""
        columns = (found.property or "").split(",")
        entity_id = found.entity_id or ""
        row = self._row(self._sides.theirs, _table(found), entity_id)
        if row is None:
            return forced.take(_table(found), entity_id, take)
        holders = self._holders(_table(found), {c: row[c] for c in columns}) - {entity_id}
        return forced.take_all(_table(found), sorted(holders), take)

    def _holders(self, key: TableKey, values: dict[str, Any]) -> set[str]:
        table = self._sides.ours.of(identity_of(self._catalog.entity_type(key))).table
        if table is None:
            return set()
        schema = table_schema(table.entity)
        wanted = {c: pa.array([v], schema.field(c).type) for c, v in values.items()}
        dataset = self._store.open(table.pin.at)
        rows = find_candidates(dataset, wanted, ["id", *values]).to_pylist()
        return {r["id"] for r in rows if all(r[c] == v for c, v in values.items())}

    def _edges_of(self, key: TableKey, source: str) -> list[str]:
        """Edges of one type from one node, on our side or on theirs."""
        found: set[str] = set()
        for side in (self._sides.ours, self._sides.theirs):
            table = side.of(identity_of(self._catalog.entity_type(key))).table
            if table is not None:
                dataset = self._store.open(table.pin.at)
                rows = find_rows(dataset, pa.array([source]), ["id"], key=SOURCE)
                found.update(rows.column("id").to_pylist())
        return sorted(found)

    def _value(self, side: Content, found: Violation, kind: ConflictKind, name: str | None) -> Any:
        if kind is ConflictKind.CARDINALITY_VIOLATION:
            table = side.of(identity_of(self._catalog.entity_type(_table(found)))).table
            if table is None:
                return []
            rows = find_rows(
                self._store.open(table.pin.at), pa.array([found.entity_id]), ["id"], key=SOURCE
            )
            return sorted(rows.column("id").to_pylist())
        row = self._row(side, _table(found), found.entity_id or "")
        if row is None:
            return None
        named = {IMAGE_NAMES.get(n, n): value for n, value in row.items()}
        if name is None:
            return named
        names = name.split(",")
        return named.get(name) if len(names) == 1 else {n: named.get(n) for n in names}

    def _row(self, side: Content, key: TableKey, entity_id: str) -> dict[str, Any] | None:
        entity = self._catalog.entity_type(key)
        ids = pa.array([entity_id], pa.string())
        found = side.of(identity_of(entity)).rows(self._store, ids, table_schema(entity))
        return found.rows.to_pylist()[0] if found.present[0] else None


def _table(found: Violation) -> TableKey:
    assert found.table is not None, "rules of a merged graph always name a type"
    return found.table

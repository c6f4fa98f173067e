"""Merge three sides into effects on ours: the rows first, then the rules of the graph.

Two branches can each keep every rule and break one together: one adds an edge to a node that the
other deletes, or both give the same unique value. Such a violation is a separate conflict
(`ConstraintConflicts`). A decision about it forces the state of single entities, and the rows are
merged again with these, until no rule is broken or a conflict is left undecided.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import pyarrow as pa

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import (
    SOURCE,
    TARGET,
    Catalog,
    EdgeType,
    EntityType,
    NodeType,
    Property,
)
from omnigraph.diff.differing_ids import DifferingIds, TablePair
from omnigraph.diff.entity_rows import (
    IMAGE_NAMES,
    TypeIdentity,
    common_schema,
    identity_of,
    tables_by_identity,
)
from omnigraph.errors import MergeConflicts, ValidationFailed
from omnigraph.evolve.new_columns import new_shape
from omnigraph.integrity.rules import EdgesPerSource, EndpointExists, UniqueTuple
from omnigraph.integrity.validate import validate_deltas
from omnigraph.integrity.violations import Violation
from omnigraph.lance_store.reads.row_lookup import find_candidates, find_rows
from omnigraph.lance_store.staging.columns import preview_columns
from omnigraph.lance_store.staging.stage import drop_preview
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.manifest.records import TablePin
from omnigraph.manifest.schemas import AcceptedSchema
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.merge.conflicts import Conflict, ConflictKind
from omnigraph.merge.converted_rows import own_types
from omnigraph.merge.decisions import Decisions, Side, Take
from omnigraph.merge.merged_catalog import MergedCatalog
from omnigraph.merge.output import MergeFindings, RowMerger, TableOutput
from omnigraph.merge.tables import MergeStorage, SideContent, Sides, tables_to_merge, unified
from omnigraph.merge.three_way import Forced
from omnigraph.schema.changes import TableChange
from omnigraph.values.identifiers import TableKey, node_table
from omnigraph.writes.changeset import (
    AdoptRows,
    EditRows,
    Effect,
    ReplaceRows,
    ReshapeTable,
    SchemaChange,
)
from omnigraph.writes.row_compare import differing_rows

_STALLED_ROUNDS = 20
"""After this many rounds without a newly forced entity, decisions are taken to undo each other."""
_NAMED = 5
"""An error message names this many conflicts."""

OutputT = TypeVar("OutputT", bound=TableOutput)


@dataclass
class MergedSides(Generic[OutputT]):
    """What the merge does to our tables, and the conflicts that are left."""

    sides: Sides
    catalog: MergedCatalog
    outputs: list[OutputT] = field(default_factory=list)
    findings: MergeFindings = field(default_factory=MergeFindings)
    forced: Mapping[TableKey, Forced] = field(default_factory=dict)

    @property
    def tables(self) -> tuple[TableKey, ...]:
        """Existing tables of ours that change, by the names that they have now."""
        changed = [output.entity.table_key for output in self.outputs]
        changed += [c.after.table_key for c in self.catalog.adjusted if c.after and c.moves_columns]
        kept = dict.fromkeys(key for key in changed if key not in self.new_tables)
        return tuple(self.catalog.our_key(key) for key in kept)

    @property
    def new_tables(self) -> frozenset[TableKey]:
        return frozenset(entity.table_key for entity in self.catalog.created)

    @property
    def touched_types(self) -> frozenset[str]:
        """The types whose rows or declarations change, and those in conflict."""
        catalog = self.catalog
        names = {entity.name for entity in (*catalog.created, *catalog.dropped)}
        for change in (*catalog.adjusted, *catalog.reshaped):
            names |= {entity.name for entity in (change.before, change.after) if entity}
        return frozenset(names | self.findings.types | {key.type_name for key in self.tables})

    def forced_ids(self, key: TableKey) -> list[str]:
        """Entities whose state was decided because they broke a rule."""
        return self.forced[key].ids if key in self.forced else []

    def effects(self, store: Store, ours: Snapshot) -> tuple[Effect, ...]:
        before = self.sides.ours.snapshot.tables
        adjusted = {c.after.table_key: c for c in self.catalog.adjusted if c.after}
        found: list[Effect] = []
        for output in self.outputs:
            key = output.entity.table_key
            if key in self.new_tables:
                continue
            change = adjusted.get(key)
            if change is not None and change.moves_columns:
                del adjusted[key]
                found.append(_adjusted(store, ours.pin(self.catalog.our_key(key)), change, output))
                continue
            pin = ours.pin(self.catalog.our_key(key))
            found.append(replace(output.effect(store, pin, before.get(key)), key=pin.key))
        for key, change in adjusted.items():
            if change.moves_columns:
                found.append(_adjusted(store, ours.pin(self.catalog.our_key(key)), change, None))
        return tuple(found)

    def schema_change(
        self, store: Store, ours: Catalog, theirs: AcceptedSchema
    ) -> SchemaChange | None:
        catalog = self.catalog
        if catalog.catalog == ours and not self._brings_text(catalog.catalog, theirs):
            return None
        new = [output for output in self.outputs if output.entity.table_key in self.new_tables]
        made = [output.effect(store, None, None) for output in new]
        gone = [c.before for c in catalog.reshaped if c.before] + list(catalog.dropped)
        return SchemaChange(
            catalog.catalog,
            _schema_text(catalog.catalog, theirs),
            added=catalog.created,
            first_rows=tuple(first for first in made if isinstance(first, ReplaceRows)),
            dropped=tuple(entity.table_key for entity in gone),
            renamed=tuple(
                (c.before.table_key, c.after.table_key)
                for c in catalog.adjusted
                if c.before and c.after and c.before.name != c.after.name
            ),
        )

    def _brings_text(self, catalog: Catalog, theirs: AcceptedSchema) -> bool:
        """Theirs wrote the same schema in another way, for example with comments."""
        base, ours, other = (side.snapshot.schema_id for side in self.sides.all)
        return base == ours != other and catalog == theirs.catalog

    def refuse_conflicts(self, *, source: str, target: str) -> None:
        conflicts, total = self.findings.conflicts, self.findings.conflict_count
        if not conflicts:
            return
        shown = "; ".join(c.message for c in conflicts[:_NAMED])
        rest = f" and {total - _NAMED} more" if total > _NAMED else ""
        raise MergeConflicts(
            f"{source} and {target} are in conflict: {shown}{rest}",
            conflicts=conflicts,
            total=total,
            source=source,
            target=target,
        )


def _adjusted(
    store: Store, pin: TablePin, change: TableChange, output: TableOutput | None
) -> ReshapeTable:
    """Other columns of one of our tables, and then the merged rows."""
    columns = tuple(new_shape(change))
    edit: EditRows | AdoptRows | None = None
    if output is not None:
        preview = preview_columns(store, pin.at, columns)
        try:
            made = output.effect(store, replace(pin, version=preview.version), None)
        finally:
            drop_preview(store, preview)
        assert isinstance(made, EditRows | AdoptRows)
        edit = replace(made, key=pin.key)
    return ReshapeTable(pin.key, pin.location, pin.branch, pin.version, columns, edit=edit)


def _as_adjusted(
    store: Store, sides: Sides, catalog: MergedCatalog
) -> tuple[Sides, list[DatasetVersion]]:
    """Our side with the new columns and names, so that rows are merged and checked in them.

    The columns are previews, which the caller removes.
    """
    ours = sides.ours.snapshot
    previews = []
    changed: dict[str, EntityType] = {}
    tables: dict[TableKey, TablePin] = {}
    for change in (*catalog.adjusted, *catalog.reshaped):
        before, after = change.before, change.after
        assert before is not None
        assert after is not None
        pin = ours.tables[before.table_key]
        changed[before.identity] = replace(before, name=after.name)
        if change in catalog.adjusted:
            changed[before.identity] = after
            if change.moves_columns:
                preview = preview_columns(store, pin.at, tuple(new_shape(change)))
                previews.append(preview)
                pin = replace(pin, version=preview.version)
        tables[after.table_key] = replace(pin, key=after.table_key)
    gone = {entity.identity for entity in catalog.dropped}
    for entity in ours.catalog.entity_types():
        if entity.identity not in changed and entity.identity not in gone:
            tables[entity.table_key] = ours.tables[entity.table_key]
    now = replace(
        ours.catalog,
        nodes=tuple(
            _node(changed.get(n.identity, n)) for n in ours.catalog.nodes if n.identity not in gone
        ),
        edges=tuple(
            _edge(changed.get(e.identity, e)) for e in ours.catalog.edges if e.identity not in gone
        ),
    )
    content = SideContent(replace(ours, catalog=now, tables=tables), sides.ours.overlays)
    return replace(sides, ours=content), previews


def _node(entity: EntityType) -> NodeType:
    assert isinstance(entity, NodeType)
    return entity


def _edge(entity: EntityType) -> EdgeType:
    assert isinstance(entity, EdgeType)
    return entity


def merge_sides(
    storage: MergeStorage,
    sides: Sides,
    decisions: Decisions,
    rows: RowMerger[OutputT],
    shown: Collection[str] | None = None,
) -> MergedSides[OutputT]:
    """Merge in rounds, until no rule is broken or a broken rule is left undecided.

    Only conflicts of the types `shown` are listed; None: all.

    Every round starts from the rows, because bringing a node back or dropping an edge can break
    the next rule. The schemas come before the rows: while they are in conflict, no row is merged.
    """
    sides = unified(sides)
    catalog = _merged_catalog(storage, sides, decisions)
    if catalog.conflicts:
        findings = MergeFindings(shown=shown)
        findings.add(list(catalog.conflicts))
        return MergedSides(sides, catalog, findings=findings)
    sides = replace(sides, base=sides.base.without(catalog.one_sided))
    adjusted, previews = _as_adjusted(storage.store, sides, catalog)
    try:
        merged = _merge_in_rounds(storage, adjusted, catalog, decisions, rows, shown)
    finally:
        for preview in previews:
            drop_preview(storage.store, preview)
    decisions.refuse_unused()
    # The effects start from our tables as they are.
    return replace(merged, sides=sides)


def _merged_catalog(storage: MergeStorage, sides: Sides, decisions: Decisions) -> MergedCatalog:
    base, ours, theirs = (side.catalog for side in sides.all)
    if ours == theirs:
        return MergedCatalog(ours)
    from omnigraph.merge.schemas import merge_catalogs

    return merge_catalogs(base, ours, theirs, _ChangedSince(storage, sides), decisions.decide)


@dataclass(frozen=True, slots=True)
class _ChangedSince:
    """What both sides did to rows since the base."""

    storage: MergeStorage
    sides: Sides

    def rows(self, identity: TypeIdentity, side: Side) -> bool:
        return not self._content(side).has_rows_of(self.sides.base, identity)

    def values(self, identity: TypeIdentity, declared: Property, side: Side) -> Sequence[str]:
        if not self.rows(identity, side):
            return ()
        store, base, now = self.storage.store, self.sides.base, self._content(side)
        before, after = base.of(identity), now.of(identity)
        if after.table is None or before.table is None:
            return ()
        lineage = self.storage.lineage
        ids = DifferingIds(store, lineage, base.snapshot, now.snapshot, self.storage.scratch)
        like = replace(after.table.entity, properties=(declared,))
        schema = common_schema(like)
        old, new = base.of(identity, like), now.of(identity, like)
        for some in ids.runs(TablePair(identity, before.table, after.table)).chunks():
            was, is_now = old.rows(store, some, schema), new.rows(store, some, schema)
            differs = differing_rows(was.rows, is_now.rows) & is_now.present
            if differs.any():
                found: list[str] = some.filter(pa.array(differs)).to_pylist()
                return found
        return ()

    def _content(self, side: Side) -> SideContent:
        return self.sides.ours if side is Side.OURS else self.sides.theirs


def _merge_in_rounds(
    storage: MergeStorage,
    sides: Sides,
    catalog: MergedCatalog,
    decisions: Decisions,
    rows: RowMerger[OutputT],
    shown: Collection[str] | None,
) -> MergedSides[OutputT]:
    forced, stalled = ForcedTables(), 0
    rules = ConstraintConflicts(storage.store, sides, catalog.catalog)
    while True:
        merged: MergedSides[OutputT] = MergedSides(
            sides, catalog, findings=MergeFindings(shown=shown), forced=forced.by_table()
        )
        _merge_rows(storage, merged, decisions, rows)
        violations = _violations(storage.store, merged)
        known = forced.count
        open_ones, moved = _judge(violations, rules, decisions, forced)
        stalled = 0 if forced.count > known else stalled + 1
        if moved and stalled < _STALLED_ROUNDS:
            for output in merged.outputs:
                output.discard()
            continue
        # Decisions that undo each other settle nothing: all of them are reported as conflicts.
        merged.findings.add([rules.conflict(v) for v in violations] if moved else open_ones)
        merged.findings.conflicts.sort(key=_conflict_order)
        return merged


def _merge_rows(
    storage: MergeStorage,
    merged: MergedSides[OutputT],
    decisions: Decisions,
    rows: RowMerger[OutputT],
) -> None:
    """Fill `merged` with outputs, conflicts and violations of single rows."""
    for table, ids in tables_to_merge(storage, merged.sides, merged.catalog, merged.forced):
        output = rows.merge_table(table, ids, decisions, merged.findings)
        if not output.is_empty or table.entity.table_key in merged.new_tables:
            merged.outputs.append(output)


def _judge(
    violations: list[Violation],
    rules: ConstraintConflicts,
    decisions: Decisions,
    forced: ForcedTables,
) -> tuple[list[Conflict], bool]:
    """(undecided conflicts, whether a decision forced something new)."""
    open_ones, moved = [], False
    seen: set[tuple[TableKey | None, str | None, str]] = set()
    for found in violations:
        name = (found.table, found.entity_id, found.rule)
        if name in seen:
            continue
        seen.add(name)
        uniform = decisions.uniform
        take = Take(uniform) if uniform else decisions.decide(rules.conflict(found))
        if take is not None and rules.settle(found, take, forced):
            moved = True
        else:
            open_ones.append(rules.conflict(found))
    return open_ones, moved


def _violations(store: Store, merged: MergedSides[OutputT]) -> list[Violation]:
    deltas = {}
    for output in merged.outputs:
        key = output.entity.table_key
        deltas[key] = output.delta(creates=key in merged.new_tables)
    report, image = merged.findings.report, _image(merged.sides, merged.catalog)
    try:
        validate_deltas(image, store, deltas, report=report)
    except ValidationFailed:
        return report.violations
    return []


def _image(sides: Sides, catalog: MergedCatalog) -> Snapshot:
    """Our snapshot as the rules see it: a table that this merge creates looks like theirs."""
    ours, theirs = sides.ours.snapshot, tables_by_identity(sides.theirs.snapshot)
    created = {
        e.table_key: replace(theirs[identity_of(e)].pin, key=e.table_key) for e in catalog.added
    }
    return replace(ours, catalog=catalog.catalog, tables={**ours.tables, **created})


def _conflict_order(conflict: Conflict) -> tuple[bool, str, str, str]:
    by_kind = conflict.entity_kind != "node"
    return by_kind, conflict.type_name, conflict.entity_id, conflict.property or ""


def _schema_text(catalog: Catalog, theirs: AcceptedSchema) -> str:
    """As theirs wrote it if theirs is the result, else made from the catalog."""
    if catalog == theirs.catalog and theirs.source:
        return theirs.source
    from omnigraph.schema.catalog_text import catalog_text

    return catalog_text(catalog)


_KINDS = {
    EndpointExists.name: ConflictKind.ORPHAN_EDGE,
    UniqueTuple.name: ConflictKind.UNIQUE_VIOLATION,
    EdgesPerSource.name: ConflictKind.CARDINALITY_VIOLATION,
}


@dataclass
class ForcedTables:
    """Decisions about single entities that broken rules led to, round by round."""

    takes: dict[TableKey, dict[str, Take]] = field(default_factory=dict)
    keep_from: dict[TableKey, dict[str, Side]] = field(default_factory=dict)

    def take(self, key: TableKey, entity_id: str, take: Take) -> bool:
        """True when the decision is new."""
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
        """Carry out a decision; False when it changes nothing any more."""
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
                # The side that has the edge also has both ends: the deleted one comes back.
                for column, node in ((SOURCE, edge.source), (TARGET, edge.target)):
                    forced.keep(node_table(node), row[column], take.side)
        return forced.take(key, edge_id, take)

    def _let_theirs_have_it(self, found: Violation, take: Take, forced: ForcedTables) -> bool:
        """Our entities that hold the unique value take their state from theirs."""
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

    def _value(
        self, side: SideContent, found: Violation, kind: ConflictKind, name: str | None
    ) -> Any:
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

    def _row(self, side: SideContent, key: TableKey, entity_id: str) -> dict[str, Any] | None:
        entity = self._catalog.entity_type(key)
        ids = pa.array([entity_id], pa.string())
        table = side.of(identity_of(entity), entity)
        declared = table.table.entity if table.table is not None else None
        schema = own_types(common_schema(entity), entity, declared)
        found = table.rows(self._store, ids, schema)
        return found.rows.to_pylist()[0] if found.present[0] else None


def _table(found: Violation) -> TableKey:
    assert found.table is not None, "rules of a merged graph always name a type"
    return found.table
